#!/bin/sh
# Finds the Python that this folder was packed for, and lets it install the course.
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
for python in ${PYTHON:-python@PYTHON@ python3 python}; do
  if "$python" "$here/install.py" --python-fits 2>/dev/null; then
    exec "$python" "$here/install.py" "$@"
  fi
done
echo "error: this folder needs Python @PYTHON@ (@PYTHON_AT_LEAST@ or later in that series) and finds none; install it, or say where it is: PYTHON=/path/to/python@PYTHON@ sh install.sh" >&2
exit 1
