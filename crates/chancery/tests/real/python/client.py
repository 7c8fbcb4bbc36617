"""Calls one or more targets over and over and prints one line per call.

Usage: client.py [--csds PORT] [--xds-credentials] TARGET...

With a port, it tells there what it runs (CSDS).

A line is `TARGET: REPLY` or `TARGET: error CODE DETAILS`. The bootstrap comes from
GRPC_XDS_BOOTSTRAP. Bodies are raw bytes, so that no message has to be generated.
"""

import sys
import time
from concurrent import futures

import grpc
import grpc.experimental
from grpc._cython import cygrpc


class Csds(grpc.GenericRpcHandler):
    """The status of this client, as grpcio-csds serves it."""

    def service(self, details):
        if not details.method.endswith(".ClientStatusDiscoveryService/FetchClientStatus"):
            return None
        return grpc.unary_unary_rpc_method_handler(lambda body, context: cygrpc.dump_xds_configs())


def serve_csds(port):
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Csds()])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server


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
    csds = None
    if targets[0] == "--csds":
        csds = serve_csds(targets[1])
        targets = targets[2:]
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
