@echo off
rem Finds the Python that this folder was packed for, and lets it install the course.
py -@PYTHON@ -c "" >nul 2>nul && (py -@PYTHON@ "%~dp0install.py" %* & exit /b)
python -c "" >nul 2>nul && (python "%~dp0install.py" %* & exit /b)
echo error: this folder needs Python @PYTHON@ (@PYTHON_AT_LEAST@ or later in that series) and finds none; install it, and type this again 1>&2
exit /b 1
