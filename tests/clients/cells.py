"""What the Python scripts share: operations run one after the other, and a line for each.

A line is the operation's name, a tab, and `ok` or `FAIL`, a tab and the reason. Exit code 77 says that the client cannot be
loaded here; the reason is the last line of what it says then.

A server with TLS and users: SERVER_CA is the file of its CA, SERVER_TOKEN the bearer token to send.
"""

import os
import ssl
import sys
import traceback


def url():
    if len(sys.argv) != 2:
        sys.exit("usage: SCRIPT URL, as http://127.0.0.1:8080")
    return sys.argv[1]


def headers():
    """What every request names its user by."""
    token = os.environ.get("SERVER_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def tls():
    """How a connection to the server is secured; None: it is not."""
    authority = os.environ.get("SERVER_CA")
    return ssl.create_default_context(cafile=authority) if authority else None


def configured(configuration):
    """The configuration of a client of Kubernetes, for the server."""
    configuration.host = url()
    configuration.ssl_ca_cert = os.environ.get("SERVER_CA")
    if os.environ.get("SERVER_TOKEN"):
        configuration.api_key["BearerToken"] = headers()["Authorization"]
    return configuration


def cannot_load(error):
    print(error, file=sys.stderr)
    sys.exit(77)


def report(name, error=None):
    if error is None:
        print(f"{name}\tok", flush=True)
        return
    where = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"{type(error).__name__}: {error} (line {where.lineno} of {where.name})"
    print(f"{name}\tFAIL\t{' '.join(reason.split())[:300]}", flush=True)


def run(operations):
    """Runs each of `operations`, pairs of a name and a function without arguments."""
    for name, operation in operations:
        try:
            operation()
        except Exception as error:  # Whatever it is, it is this operation's.
            report(name, error)
        else:
            report(name)


def refused(code, call, *arguments, **options):
    """The call must fail with this HTTP code."""
    try:
        call(*arguments, **options)
    except Exception as error:
        assert getattr(error, "status", None) == code, error
        return
    raise AssertionError(f"not refused with {code}")
