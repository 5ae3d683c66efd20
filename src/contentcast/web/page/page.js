// The page: one snapshot comes every second, and everything below is brought to it.
//
// Names, predicates and reasons come from strangers. They get into the page by textContent alone, never as markup;
// the server's Content-Security-Policy would stop a script that got in all the same.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const HISTORY = 120; // snapshots in the small curves
const HIDDEN_FOR_MS = 5000; // a page that nobody sees stops asking
const find = (id) => document.getElementById(id);

let snapshot = null;
let answer = null;
let chosen = "";
let cameAt = 0;
const curves = { published_per_s: [], between_per_s: [], delivered_per_s: [] };

// --- values as people read them

const rate = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 10) return String(Math.round(value * 10) / 10);
  return thousands(value);
};
const thousands = (value) => {
  if (value < 10000) return Math.round(value).toLocaleString("en");
  for (const [size, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return (value / size).toPrecision(3) + " " + name;
  }
  return String(value);
};
const count = (value) => (value === null || value === undefined ? "–" : thousands(value));
const bytes = (value) => {
  if (value === null || value === undefined) return "–";
  for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return (value / size).toPrecision(3) + " " + name;
  }
  return value + " B";
};
const milliseconds = (value) => (value === null || value === undefined ? "–" : value >= 100 ? thousands(value) : String(Number(value.toPrecision(3))));
const lasting = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return seconds < 172800 ? (seconds / 3600).toFixed(1) + " h" : (seconds / 86400).toFixed(1) + " d";
};
const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// --- elements

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function draw(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
const isolated = (text) => make("bdi", null, text); // text of another writing direction does not turn what stands beside it
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Children by key: what is there is kept, so that focus, selection and scrolling survive a snapshot.
function keyed(parent, items, keyOf, create, update) {
  const there = new Map();
  for (const child of [...parent.children]) {
    if (there.has(child.dataset.key)) child.remove(); // a broker told two of one key: each snapshot would add one more
    else there.set(child.dataset.key, child);
  }
  let before = null;
  items.forEach((item) => {
    const key = keyOf(item);
    let child = there.get(key);
    if (child) there.delete(key);
    else {
      child = create(item);
      child.dataset.key = key;
    }
    update(child, item);
    const next = before ? before.nextElementSibling : parent.firstElementChild;
    if (next !== child) parent.insertBefore(child, next);
    before = child;
  });
  for (const gone of there.values()) gone.remove();
}

// --- tables

const orders = {};
function table(id, columns, rows, keyOf, { empty = "none", classOf = () => "" } = {}) {
  const element = find(id);
  if (!element.tHead) {
    const head = make("tr");
    columns.forEach((column, at) => {
      const button = make("button", { type: "button" }, column.title);
      if (column.about) button.title = column.about;
      button.addEventListener("click", () => {
        const order = orders[id];
        orders[id] = { at, down: order && order.at === at ? !order.down : Boolean(column.number) };
        render();
      });
      head.append(make("th", { scope: "col", class: column.number ? "number" : "" }, button));
    });
    element.append(make("thead", null, head), make("tbody"));
  }
  const order = orders[id];
  [...element.tHead.rows[0].cells].forEach((cell, at) => {
    if (order && order.at === at) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  const sorted = order ? [...rows].sort((one, other) => compare(columns[order.at], one, other) * (order.down ? -1 : 1)) : rows;
  element.hidden = !rows.length;
  let note = element.parentElement.querySelector(".empty");
  if (!note) element.parentElement.append((note = make("p", { class: "empty" }, empty)));
  note.hidden = rows.length > 0;
  keyed(
    element.tBodies[0],
    sorted,
    keyOf,
    () => {
      const row = make("tr");
      columns.forEach((column, at) => {
        const kind = column.number ? "number" : "text " + (column.kind || "");
        const inside = column.press ? make("button", { type: "button" }) : isolated("");
        if (column.press) inside.addEventListener("click", () => column.press(row.item));
        row.append(at ? make("td", { class: kind }, inside) : make("th", { scope: "row" }, inside));
      });
      return row;
    },
    (row, item) => {
      row.item = item;
      const names = classOf(item);
      if (row.className !== names) row.className = names;
      columns.forEach((column, at) => {
        const cell = row.cells[at];
        const text = column.show(item);
        write(cell.firstElementChild, text);
        if (column.press) cell.firstElementChild.hidden = !text;
        if (!at) cell.title = text;
        if (column.isBad) cell.classList.toggle("bad", column.isBad(item));
      });
    },
  );
}
function compare(column, one, other) {
  const [left, right] = [column.value(one), column.value(other)];
  if (left === right) return 0;
  if (left === null || left === undefined) return -1;
  if (right === null || right === undefined) return 1;
  return left < right ? -1 : 1;
}
const number = (title, name, show, about, isBad) => ({ title, about, number: true, isBad, value: (row) => row[name], show: (row) => show(row[name]) });
const text = (title, name, kind) => ({ title, kind, value: (row) => row[name], show: (row) => row[name] || "" });
const isSome = (name) => (row) => row[name] > 0;

const STATUS = { up: "up", silent: "does not answer", down: "down", unwatched: "not looked at" };
const BROKERS = [
  text("broker", "name"),
  { title: "status", kind: "status", value: (row) => row.status, show: (row) => STATUS[row.status] },
  number("in/s", "events_in_per_s", rate, "events that clients published here, and that came from other brokers"),
  number("out/s", "events_out_per_s", rate, "events sent to other brokers"),
  number("delivered/s", "delivered_per_s", rate, "events handed to clients, once for each client"),
  number("subscriptions", "subscriptions", count),
  number("clients", "clients", count),
  number("backlog", "backlog_bytes", bytes, "bytes that wait for clients and links"),
  number("waiting", "waiting_events", count, "events that wait for durable subscribers"),
  number("missed", "missed", count, "events left out for slow clients that are connected", isSome("missed")),
  number("memory", "memory_bytes", bytes, "of its process"),
  number("up for", "up_s", lasting),
  { title: "protocol", kind: "", value: (row) => row.protocol, show: (row) => row.protocol || "" },
];
const LINKS = [
  { title: "link", value: (row) => row.from + row.to, show: (row) => row.from + " → " + row.to },
  { title: "status", kind: "status", value: (row) => row.status, show: (row) => (row.status === "up" ? "up" : "down: " + row.problem) },
  number("events/s", "per_s", rate),
  number("p50 ms", "p50_ms", milliseconds),
  number("p99 ms", "p99_ms", milliseconds),
  number("messages/s", "messages_per_s", rate),
  number("delay ms", "delay_ms", milliseconds, "half of the way there and back of a heartbeat"),
  number("delay p99 ms", "delay_p99_ms", milliseconds),
  number("waiting", "bytes", bytes, "bytes that wait for the link"),
];
const SLOW = [
  text("client", "client"),
  text("broker", "broker"),
  number("waiting", "queued_bytes", bytes),
  number("missed", "missed", count, "", isSome("missed")),
  { title: "paused", value: (row) => row.paused, show: (row) => (row.paused ? "yes" : "") },
];
const SPACES = [
  text("space", "name"),
  number("published/s", "published_per_s", rate),
  number("p50 ms", "published_p50_ms", milliseconds),
  number("p99 ms", "published_p99_ms", milliseconds),
  number("delivered/s", "delivered_per_s", rate),
  number("p50 ms", "delivered_p50_ms", milliseconds),
  number("p99 ms", "delivered_p99_ms", milliseconds),
];
const SUBSCRIPTIONS = [
  { title: "client", value: (row) => row.client, show: (row) => row.client + (row.durable ? " (durable)" : "") },
  text("broker", "broker"),
  text("space", "space"),
  { ...text("predicate", "predicate"), kind: "predicate long" },
  number("accepted", "accepted", count),
  { ...text("why none", "never"), kind: "long" },
  { ...text("id", "id"), kind: "id" },
  { title: "ask", kind: "", value: (row) => row.accepted, show: (row) => (row.accepted ? "" : "why?"), press: judge },
];

// --- the parts of the page

function totals(told) {
  const tiles = [
    { name: "brokers up", shown: told.brokers_up + " of " + told.brokers, bad: told.brokers_up < told.brokers },
    { name: "links up", shown: told.links_up + " of " + told.links, bad: told.links_up < told.links },
    { name: "published/s", shown: rate(told.published_per_s), curve: curves.published_per_s },
    { name: "forwarded/s", shown: rate(told.between_per_s), curve: curves.between_per_s },
    { name: "delivered/s", shown: rate(told.delivered_per_s), curve: curves.delivered_per_s },
    { name: "subscriptions", shown: count(told.subscriptions) },
    { name: "clients", shown: count(told.clients) },
    { name: "backlog", shown: bytes(told.backlog_bytes) },
    { name: "wait durably", shown: count(told.waiting_events) },
    { name: "missed", shown: count(told.missed), bad: told.missed > 0 },
  ];
  keyed(
    find("totals"),
    tiles,
    (tile) => tile.name,
    (tile) => {
      const made = make("div", null, make("dt", null, tile.name), make("dd"));
      if (tile.curve) made.append(draw("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, draw("polyline")));
      return made;
    },
    (made, tile) => {
      write(made.querySelector("dd"), tile.shown);
      made.className = tile.bad ? "bad" : "";
      if (tile.curve) {
        const most = Math.max(1, ...tile.curve);
        const points = tile.curve.map((value, at) => `${100 - (tile.curve.length - 1 - at) * (100 / (HISTORY - 1))},${98 - 94 * (value / most)}`);
        made.querySelector("polyline").setAttribute("points", points.join(" "));
      }
    },
  );
}

function problems(told) {
  const found = [];
  for (const each of told.brokers) if (each.status === "down" || each.status === "silent") found.push(`broker ${each.name}: ${each.problem}`);
  for (const each of told.links) if (each.status === "down" && !each.problem.endsWith("cannot be reached")) found.push(`link ${each.one} – ${each.other} is down: ${each.problem}`);
  const shown = found.slice(0, 8);
  if (found.length > shown.length) shown.push(`and ${found.length - shown.length} more`);
  // A silence that grows is the same problem: its seconds are no new line to be read aloud.
  keyed(find("problems"), shown, (line) => line.replace(/[\d.]+ s$/, ""), () => make("li", null, isolated("")), (item, line) => {
    if (!item.textContent) item.firstElementChild.textContent = line;
  });
}

const LABELLED_PX = 90; // what a shorter link carries stands in the table alone
const NODE = { small: 9, large: 20 };
function network(told) {
  const svg = find("network");
  const [width, height] = [svg.clientWidth || 600, svg.clientHeight || 400];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const [across, down] = [Math.min(90, width / 6), 56];
  const busiest = Math.max(1, ...told.brokers.map((each) => each.events_in_per_s || 0));
  const places = new Map();
  for (const each of told.brokers) {
    const share = Math.sqrt((each.events_in_per_s || 0) / busiest);
    places.set(each.name, {
      x: across + each.x * (width - 2 * across),
      y: down + each.y * (height - 2 * down),
      r: Math.min(1, width / 640 + 0.2) * (told.brokers.length > 60 ? 4 + 6 * share : NODE.small + (NODE.large - NODE.small) * share),
    });
  }
  const taken = new Set(answer ? answer.links.flatMap((each) => [each.from + "\n" + each.to, each.to + "\n" + each.from]) : []);
  const most = Math.max(1, ...told.links.flatMap((link) => link.flows.map((flow) => flow.per_s)));
  let [lines, nodes] = [svg.querySelector(".lines"), svg.querySelector(".nodes")];
  if (!lines) svg.append((lines = draw("g", { class: "lines" })), (nodes = draw("g", { class: "nodes" })));
  keyed(
    lines,
    told.links.filter((link) => places.has(link.one) && places.has(link.other)),
    (link) => link.one + "\n" + link.other,
    () => draw("g", null, draw("title"), draw("line"), draw("text", { class: "rate" }), draw("text", { class: "rate" })),
    (group, link) => {
      const [one, other] = [places.get(link.one), places.get(link.other)];
      const load = link.flows.reduce((sum, flow) => sum + flow.per_s, 0);
      group.setAttribute("class", "link " + link.status + (taken.has(link.one + "\n" + link.other) ? " taken" : ""));
      const [title, line, first, second] = group.children;
      write(title, `${link.one} – ${link.other}: ` + (link.status === "up" ? rate(load) + " events/s" : link.problem));
      for (const [name, value] of [["x1", one.x], ["y1", one.y], ["x2", other.x], ["y2", other.y]]) line.setAttribute(name, value.toFixed(1));
      line.setAttribute("stroke-width", (link.status === "up" ? 2 + 8 * Math.sqrt(load / (2 * most)) : 2).toFixed(2));
      const shown = link.status === "up" ? link.flows.filter((flow) => flow.per_s > 0) : [null];
      [first, second].forEach((text, at) => {
        const flow = shown[at];
        const isShort = Math.hypot(other.x - one.x, other.y - one.y) < LABELLED_PX;
        write(text, flow === undefined || isShort ? "" : flow ? label(flow, places) : "down");
        beside(text, one, other, at ? -1 : 1);
      });
    },
  );
  const gets = new Map();
  for (const each of answer ? answer.gets : []) gets.set(each.broker, (gets.get(each.broker) || 0) + 1);
  keyed(
    nodes,
    told.brokers,
    (each) => each.name,
    (each) => {
      const group = draw("g", { tabindex: "0", role: "button" }, draw("title"), draw("circle", { class: "halo" }), draw("circle"), draw("text", { class: "name" }), draw("text", { class: "rate" }));
      group.addEventListener("click", () => choose(each.name));
      group.addEventListener("keydown", (pressed) => {
        if (pressed.key === "Enter" || pressed.key === " ") {
          pressed.preventDefault();
          choose(each.name);
        }
      });
      return group;
    },
    (group, each) => {
      const at = places.get(each.name);
      const names = ["broker", each.status];
      if (gets.has(each.name)) names.push("gets");
      if (answer && answer.entered === each.name) names.push("entered");
      group.setAttribute("class", names.join(" "));
      group.setAttribute("aria-pressed", String(chosen === each.name));
      const [title, halo, circle, name, below] = group.children;
      const about = each.status === "up" ? `${rate(each.events_in_per_s)} events/s in, ${rate(each.delivered_per_s)} delivered` : STATUS[each.status];
      write(title, `${each.name}: ${about}`);
      for (const round of [halo, circle]) {
        round.setAttribute("cx", at.x.toFixed(1));
        round.setAttribute("cy", at.y.toFixed(1));
      }
      halo.setAttribute("r", (at.r + 6).toFixed(1));
      circle.setAttribute("r", at.r.toFixed(1));
      const isCrowded = told.brokers.length > 60 && !gets.has(each.name) && chosen !== each.name;
      write(name, isCrowded ? "" : short(each.name, 22));
      const got = gets.get(each.name);
      write(below, isCrowded ? "" : got ? (got === 1 ? "1 gets it" : got + " get it") : each.status !== "up" ? STATUS[each.status] : each.delivered_per_s > 0 ? rate(each.delivered_per_s) + " delivered/s" : "");
      name.setAttribute("x", at.x.toFixed(1));
      name.setAttribute("y", (at.y - at.r - 8).toFixed(1));
      below.setAttribute("x", at.x.toFixed(1));
      below.setAttribute("y", (at.y + at.r + 17).toFixed(1));
    },
  );
}
function label(flow, places) {
  const [from, to] = [places.get(flow.from), places.get(flow.to)];
  const [right, below] = [to.x - from.x, to.y - from.y];
  const arrow = Math.abs(right) >= Math.abs(below) ? (right >= 0 ? "→" : "←") : below >= 0 ? "↓" : "↑";
  return arrow === "←" ? `← ${rate(flow.per_s)}/s` : `${rate(flow.per_s)}/s ${arrow}`;
}
// At the middle of a link, on one side of it.
function beside(text, one, other, side) {
  const length = Math.hypot(other.x - one.x, other.y - one.y) || 1;
  const [right, below] = [(side * (other.y - one.y)) / length, (side * (one.x - other.x)) / length];
  text.setAttribute("x", ((one.x + other.x) / 2 + 9 * right).toFixed(1));
  text.setAttribute("y", ((one.y + other.y) / 2 + 12 * below + 4).toFixed(1));
  text.setAttribute("text-anchor", right > 0.4 ? "start" : right < -0.4 ? "end" : "middle");
}
function choose(name) {
  chosen = chosen === name ? "" : name;
  render();
}

// The first choice is the one where most is published.
function options(select, rows) {
  const isFirst = !select.options.length;
  keyed(select, rows, (row) => row.name, (row) => make("option", { value: row.name }, row.name), () => {});
  if (isFirst && rows.length) select.value = rows.reduce((most, row) => ((row.published_per_s || 0) > (most.published_per_s || 0) ? row : most)).name;
}

function render() {
  if (!snapshot) return;
  const told = snapshot;
  problems(told);
  totals(told.totals);
  network(told);
  const has = (...names) => (chosen && names.includes(chosen) ? " chosen" : "");
  table("brokers", BROKERS, told.brokers, (row) => row.name + "\n" + row.url, { classOf: (row) => row.status + has(row.name) });
  const directions = told.links.flatMap((link) => (link.flows.length ? link.flows.map((flow) => ({ ...flow, status: link.status, problem: link.problem })) : [{ from: link.one, to: link.other, status: link.status, problem: link.problem }]));
  table("links", LINKS, directions, (row) => row.from + "\n" + row.to, { empty: "no links", classOf: (row) => row.status + has(row.from, row.to) });
  table("slow", SLOW, told.slow, (row) => row.broker + "\n" + row.client, { empty: "nobody: nothing waits and nothing was left out", classOf: (row) => has(row.broker) });
  table("spaces", SPACES, told.spaces, (row) => row.name, { empty: "no space is declared yet" });
  subscriptions(told, has);
  options(find("space"), told.spaces);
  options(find("enters"), told.brokers.filter((each) => each.status === "up"));
  const about = told.brokers.find((each) => each.name === chosen);
  write(find("chosen"), about ? `${short(about.name, 60)} at ${about.url || "an unknown address"}${about.problem ? ": " + about.problem : ""}` : "Choose a broker to find it in the tables.");
}

function subscriptions(told, has) {
  const wanted = find("filter").value.trim().toLowerCase();
  const rows = told.subscriptions.filter((row) => !wanted || [row.client, row.broker, row.space, row.predicate, row.id].some((each) => each.toLowerCase().includes(wanted)));
  const notes = ["Those that have never accepted an event stand first, with the test that keeps it from the last events."];
  if (told.subscription_count > told.subscriptions.length) notes.push(`${told.subscriptions.length} of ${told.subscription_count.toLocaleString("en")} are shown.`);
  if (told.uncounted.length) notes.push(`Too many to be told: ${told.uncounted.join(", ")}.`);
  write(find("subscriptions-note"), notes.join(" "));
  table("subscriptions", SUBSCRIPTIONS, rows, (row) => row.broker + "\n" + row.id, { empty: wanted ? "none with this" : "nobody has subscribed", classOf: (row) => has(row.broker) });
}

// --- why

function ask(submitted) {
  submitted.preventDefault();
  if (find("question").querySelector("[type=submit]").disabled) return;
  const event = find("event").value;
  try {
    JSON.parse(event);
  } catch (reason) {
    refuse("The event is no JSON: " + reason.message);
    return;
  }
  // Sent as it was written: a number of JavaScript has 53 bits, an event's int has 64.
  const question = JSON.stringify({ space: find("space").value, broker: find("enters").value });
  send(`${question.slice(0, -1)},"event":${event}}`, tell);
}
// A subscription that has accepted nothing, judged by the last events of the whole network.
function judge(row) {
  find("why").focus();
  send(JSON.stringify({ space: row.space, broker: row.broker, subscription: row.id }), tellJudged);
}
async function send(question, then) {
  const buttons = document.querySelectorAll("#question [type=submit], #subscriptions td button");
  for (const each of buttons) each.disabled = true;
  try {
    const came = await fetch("/why", { method: "POST", headers: { "Content-Type": "application/json" }, body: question });
    const told = await came.json();
    if (came.ok) then(told);
    else refuse(told.problem || "HTTP " + came.status);
  } catch (reason) {
    refuse("The server does not answer: " + reason.message);
  } finally {
    for (const each of buttons) each.disabled = false;
  }
}
function tellJudged(told) {
  const parts = [make("p", null, ...who(told), " wants ", make("code", null, isolated(told.predicate)))];
  parts.push(make("p", null, `It has accepted ${told.accepted.toLocaleString("en")} events.`));
  if (!told.accepted) parts.push(make("p", { class: "fails" }, isolated(told.keeps)));
  for (const each of told.tests || []) {
    if (each.values) parts.push(make("p", { class: "quiet" }, make("code", null, isolated(each.test)), ": the events have ", make("code", null, isolated(each.shown.join(", ")))));
  }
  answer = null;
  find("answer").replaceChildren(...parts);
  show(false);
  find("clear").hidden = false;
}
function refuse(reason) {
  answer = null;
  find("answer").replaceChildren(make("p", { class: "wrong" }, reason));
  show(false);
}
function show(hasAnswer) {
  for (const each of document.querySelectorAll("#legend .asked")) each.hidden = !hasAnswer;
  find("clear").hidden = !hasAnswer;
  render();
}
function who(each) {
  return [isolated(each.client), " at ", isolated(each.broker), " (subscription ", each.subscription, each.durable ? ", durable)" : ")"];
}
function tell(told) {
  answer = told;
  const parts = [];
  const way = told.links.map((each) => `${each.from} → ${each.to}`).join(", ");
  parts.push(make("p", null, "It enters at ", make("b", null, isolated(told.entered)), told.links.length ? ", and crosses " : ", and crosses no link.", isolated(way)));
  const heading = told.gets.length ? `${told.gets.length.toLocaleString("en")} would get it` : "Nobody would get it";
  parts.push(make("h3", null, heading), make("ul", null, ...told.gets.slice(0, 200).map((each) => make("li", null, ...who(each)))));
  if (told.misses.length) {
    parts.push(make("h3", null, `${told.misses.length + told.more} would not`));
    parts.push(make("ul", null, ...told.misses.map(missed)));
  }
  if (told.not_taken.length) {
    parts.push(make("h3", null, "Links that it would not take"));
    parts.push(make("p", { class: "quiet" }, isolated(told.not_taken.map((each) => `${each.from} → ${each.to}`).join(", ")), ": nobody behind them wants it, or another way leads there"));
  }
  for (const [name, reason] of Object.entries(told.unreachable)) parts.push(make("p", { class: "fails" }, isolated(name), " could not be asked: ", reason));
  find("answer").replaceChildren(...parts);
  show(true);
}
function missed(each) {
  const lines = [make("div", null, ...who(each), " wants ", make("code", null, isolated(each.predicate)))];
  for (const failed of each.failed) lines.push(make("div", { class: "fails" }, "fails: ", make("code", null, isolated(failed.test)), ", and the event has ", make("code", null, isolated(failed.shown))));
  if (each.problem) lines.push(make("div", { class: "fails" }, each.problem));
  if (each.matched) lines.push(make("div", { class: "fails" }, "it matches: the network has not heard of the subscription yet, or cannot reach its broker"));
  return make("li", null, ...lines);
}

// --- the stream of snapshots

let source = null;
let again = 0;
function listen() {
  if (source) source.close();
  source = new EventSource("/events");
  source.onmessage = (message) => {
    snapshot = JSON.parse(message.data);
    cameAt = performance.now();
    for (const [name, values] of Object.entries(curves)) {
      values.push(snapshot.totals[name]);
      if (values.length > HISTORY) values.shift();
    }
    render();
    tellNews();
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      clearTimeout(again);
      again = setTimeout(listen, 3000);
    }
    tellNews("lost");
  };
}
function tellNews(lost) {
  const element = find("news");
  const age = (performance.now() - cameAt) / 1000;
  const late = snapshot && age > 3 * snapshot.every_s + 3;
  let said = "looking for brokers…";
  let state = "waiting";
  if (lost || late || (element.dataset.state === "lost" && age > 1.5)) {
    said = snapshot ? `no news since ${new Date(snapshot.at).toLocaleTimeString()}; trying again` : "the server does not answer; trying again";
    state = "lost";
  } else if (snapshot) {
    said = `${snapshot.totals.brokers_up} of ${snapshot.totals.brokers} brokers up, looked at ${new Date(snapshot.at).toLocaleTimeString()}`;
    state = "live";
  }
  document.body.classList.toggle("stale", state === "lost" && Boolean(snapshot));
  element.dataset.state = state;
  write(element, said);
}

let leaving = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (!document.hidden && !source) listen();
  if (document.hidden) {
    leaving = setTimeout(() => {
      clearTimeout(again);
      source.close();
      source = null;
    }, HIDDEN_FOR_MS);
  }
});
find("question").addEventListener("submit", ask);
find("event").addEventListener("keydown", (pressed) => {
  if (pressed.key === "Enter" && (pressed.ctrlKey || pressed.metaKey)) ask(pressed);
});
find("clear").addEventListener("click", () => {
  answer = null;
  find("answer").replaceChildren();
  show(false);
});
find("filter").addEventListener("input", render);
new ResizeObserver(render).observe(find("network"));
setInterval(() => document.hidden || tellNews(), 1000);
listen();
