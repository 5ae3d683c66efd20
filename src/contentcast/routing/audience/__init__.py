"""Who wants what, in the form in which a broker matches events against it: by search tree or by index.

members     an audience: rows of subscriptions, and whose they are        by_tree, by_index   the two ways to match it
forest      audiences that the brokers of one process share               audiences           those of all spaces at one broker
pairs       from matched rows to links, brokers and clients, by kernels   serving             which clients get an event
"""

from contentcast.routing.audience.by_index import IndexAudience
from contentcast.routing.audience.by_tree import TreeAudience
from contentcast.routing.audience.forest import Forest
from contentcast.routing.audience.members import Audience, Change, Found

__all__ = ["Audience", "Change", "Forest", "Found", "IndexAudience", "TreeAudience"]
