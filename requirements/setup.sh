#!/bin/sh
# Fills .venv from the locks: `sh requirements/setup.sh dev [bench]`. Every make target calls it; at once when all is there.
#
# Rules: a stamp is named by the checksum of what it was installed from, so a changed lock installs anew. Only the process named in
# .venv/.installing changes .venv; when that process is dead, .venv is half-made and is made again from nothing.
set -eu
cd "$(dirname "$0")/.."
ROOT=$(pwd -P)
VENV=.venv
MARK=$VENV/.installing
SAY_EVERY_S=8

say() { printf '%s\n' "setup: $*" >&2; }
checksum() { cksum <"$1" | tr ' ' '-'; }
stamp_of() { printf '%s' "$VENV/.stamps/$1-$(checksum "$2")"; }

sound() {
    [ -e "$VENV/.root" ] && [ "$(cat "$VENV/.root")" = "$ROOT" ] && "$VENV/bin/python" -c '' 2>/dev/null
}

complete() {
    for name in "$@"; do
        [ -e "$(stamp_of "$name" "requirements/$name.lock")" ] || return 1
    done
    [ -e "$(stamp_of project pyproject.toml)" ]
}

# A dead process's number may have been given to another program, so its name must be ours too (where ps can tell).
at_work() {
    kill -0 "$1" 2>/dev/null && { ps -p "$1" -o args= 2>/dev/null || echo setup.sh; } | grep -q 'setup\.sh'
}

# Sets BROKEN when the last one to work here did not finish.
take_turn() {
    mkdir -p "$VENV"
    waited=0
    until (set -C; echo $$ >"$MARK") 2>/dev/null; do
        owner=$(cat "$MARK" 2>/dev/null || true)
        if at_work "${owner:-0}"; then
            [ $((waited % SAY_EVERY_S)) -ne 0 ] || say "waiting for process $owner, which is filling $VENV"
            waited=$((waited + 1))
            sleep 1
        else
            BROKEN=yes
            rm -f "$MARK"
        fi
    done
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    say "needs Python 3.11 or newer; found $(${PYTHON:-python3} --version 2>&1 | tail -n 1)."
    say "Install one (on Debian: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3.12"
    exit 1
}

make_venv() {
    python=$(find_python)
    if [ -e "$VENV/bin" ]; then say "$VENV is unfinished, broken or from another folder: making it again"; fi
    say "making $VENV with $("$python" --version)"
    find "$VENV" -mindepth 1 -maxdepth 1 ! -name .installing -exec rm -rf {} +
    "$python" -m venv "$VENV" >"$VENV/venv.log" 2>&1 || {
        cat "$VENV/venv.log" >&2
        say "$python -m venv failed (on Debian: apt-get install python3-venv)"
        exit 1
    }
    mkdir -p "$VENV/.stamps"
    printf '%s\n' "$ROOT" >"$VENV/.root"
}

# What pip is doing now.
doing() {
    now=$(grep -E '^ *(Collecting|Downloading|Building|Installing)' "$VENV/pip.log" | tail -n 1 | sed 's/^ *//' | cut -c 1-70)
    printf '%s\n' "${now:-pip is starting}"
}

# pip, its many lines folded into one on a terminal and into one every SAY_EVERY_S elsewhere; all are shown when it fails.
pip_install() {
    "$VENV/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off "$@" >"$VENV/pip.log" 2>&1 &
    pip=$!
    trap 'kill $pip 2>/dev/null; exit 130' INT TERM # sh starts background work deaf to Ctrl-C
    if [ -t 2 ]; then
        while kill -0 $pip 2>/dev/null; do
            printf '\r\033[K  %s' "$(doing)" >&2
            sleep 0.5
        done
        printf '\r\033[K' >&2
    else
        waited=0
        while kill -0 $pip 2>/dev/null; do
            sleep 1
            waited=$((waited + 1))
            [ $((waited % SAY_EVERY_S)) -ne 0 ] || say "$(doing) ($waited s)"
        done
    fi
    if ! wait $pip; then
        tail -n 40 "$VENV/pip.log" >&2
        say "pip failed; all it said is in $VENV/pip.log"
        exit 1
    fi
    trap - INT TERM
}

# once NAME FILE WHAT pip-arguments...: installs unless the stamp of NAME says that this very FILE is installed.
once() {
    stamp=$(stamp_of "$1" "$2")
    [ -e "$stamp" ] && return
    say "installing $3"
    name=$1
    shift 3
    pip_install "$@"
    rm -f "$VENV/.stamps/$name-"*
    : >"$stamp"
}

if [ ! -e "$MARK" ] && sound && complete "$@"; then exit 0; fi

BROKEN=
take_turn
if [ -n "$BROKEN" ] || ! sound; then make_venv; fi
for name in "$@"; do
    lock=requirements/$name.lock
    once "$name" "$lock" "the $(grep -c == "$lock") packages of $lock (minutes the first time)" --require-hashes -r "$lock"
done
once project pyproject.toml "contentcast itself, editable" --no-deps --no-build-isolation -e .
rm -f "$MARK"
