"""Calls one or more targets over and over and prints one line per call.

Usage: client.py [--xds-credentials] TARGET...

A line is `TARGET: REPLY` or `TARGET: error CODE DETAILS`. The bootstrap comes from
GRPC_XDS_BOOTSTRAP. Bodies are raw bytes, so that no message has to be generated.
"""

import sys
import time

import grpc
import grpc.experimental


def channel(target, xds_credentials):
    if not xds_credentials:
        return grpc.insecure_channel(target)
    fallback = grpc.experimental.insecure_channel_credentials()
    return grpc.secure_channel(target, grpc.xds_channel_credentials(fallback))


def call(method):
    try:
        return method(b"python", timeout=2).decode()
    except grpc.RpcError as fault:
        return f"error {fault.code().name} {fault.details()}"


def main():
    targets = sys.argv[1:]
    xds_credentials = targets[0] == "--xds-credentials"
    if xds_credentials:
        targets = targets[1:]
    channels = [(target, channel(target, xds_credentials)) for target in targets]
    methods = [(target, open.unary_unary("/hello.Greeter/SayHello")) for target, open in channels]
    while True:
        for target, method in methods:
            print(f"{target}: {call(method)}", flush=True)
        time.sleep(0.05)


main()
