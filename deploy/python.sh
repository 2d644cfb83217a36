# shellcheck shell=sh
# Sourced by deploy/demo and tests/run.

runs_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Sets PYTHON to the first Python >= 3.11 that runs; else says what to install and exits 69.
# A PYTHON of the caller's that is none is an error: another one would not be what was asked for.
find_python() {
    if [ -n "${PYTHON:-}" ] && ! runs_python "$PYTHON"; then
        echo "shardpulse: error: PYTHON=$PYTHON is no Python 3.11 or newer" >&2
        exit 69
    fi
    for PYTHON in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if runs_python "$PYTHON"; then
            return
        fi
    done
    echo "shardpulse: error: Python 3.11 or newer is needed and none was found: install one" \
        "(Debian 12, Ubuntu 24.04: apt install python3 python3-venv) or name it: PYTHON=/path/to/python3 $0" >&2
    exit 69
}
