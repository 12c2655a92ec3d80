"""Environment variables that a script job must not set, because they make interpreters, loaders and common tools run
other code.

The operator of a worker decides what its scripts do. A submitter chooses only which script runs, and its arguments and
variables. The rule is a list of refused names and not of allowed names, because scripts read variables with names of
their own. It does not protect a script that passes a variable to a shell, or that calls a program whose variables are
not listed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_HARMLESS: Final = """
PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONHASHSEED PYTHONDONTWRITEBYTECODE PYTHONOPTIMIZE NODE_ENV
GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
GIT_TERMINAL_PROMPT
"""
# In this order: the loader and the C library; interpreters; tools that start programs which variables name; settings.
_PREFIXES: Final = """
LD_ DYLD_ GCONV_ GLIBC_ MALLOC_
BASH PYTHON PERL RUBY GEM_ BUNDLE_ NODE_ NPM_ YARN_ JAVA_ _JAVA JDK_ LUA_ PHP_ DOTNET_ CORECLR_ COR_PROFILER COR_ENABLE
R_PROFILE R_ENVIRON R_LIBS JULIA_ ERL_ DENO_
GIT_ SSH_ SUDO_ OPENSSL_ ANSIBLE_ PIP_ UV_ CARGO_ RUSTC CLOUDSDK_ TF_CLI_
DOCKER_ SYSTEMD_ MAVEN_ GRADLE_ AWS_ENDPOINT_URL
XDG_ TIMEBALL_
"""
_NAMES: Final = """
PATH HOME SHELL IFS ENV CDPATH FPATH ZDOTDIR SHELLOPTS PS1 PS2 PS3 PS4 PROMPT_COMMAND
LOCPATH NLSPATH TZDIR HOSTALIASES RESOLV_HOST_CONF RES_OPTIONS GETCONF_DIR TERMINFO TERMINFO_DIRS TERMCAP
CLASSPATH PHPRC TCLLIBPATH CC CXX CFLAGS LDFLAGS RUSTFLAGS GOFLAGS GOENV GOPATH GOROOT MAKEFLAGS MAKEFILES
EDITOR VISUAL PAGER BROWSER LESS LESSOPEN LESSCLOSE LESSKEY MANPAGER MANOPT
RSYNC_RSH CVS_RSH TAR_OPTIONS AWKPATH AWKLIBPATH WGETRC CURL_HOME INPUTRC PSQLRC PGSERVICEFILE PGSYSCONFDIR MYSQL_HOME
KUBECONFIG GNUPGHOME RIPGREP_CONFIG_PATH VIMINIT AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE
SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE
"""
HARMLESS: Final = frozenset(_HARMLESS.split())
"""Names with a refused prefix that are allowed, because they are useful and do not run other code."""
REFUSED_PREFIXES: Final = tuple(_PREFIXES.split())
REFUSED: Final = frozenset(_NAMES.split())


def is_refused(name: str) -> bool:
    """True if a script job must not set this variable. The comparison ignores case, because some tools do."""
    capitals = name.upper()
    return capitals in REFUSED or (capitals.startswith(REFUSED_PREFIXES) and capitals not in HARMLESS)


def refused(names: Iterable[str]) -> list[str]:
    return [name for name in names if is_refused(name)]


def reason(name: str) -> str:
    if name.upper().startswith("TIMEBALL_"):
        return f"a script job cannot set {name}: names that begin with TIMEBALL_ are reserved for Timeball"
    return (
        f"a script job cannot set {name}: the variable could run code other than the script; set it in the script, or"
        " pass the value under another name"
    )
