"""A server that greets with its name.

Usage: server.py PORT NAME [xds]

With `xds` it is an xDS-enabled server: it serves while the management server gives it a listener.
"""

import sys
from concurrent import futures

import grpc


class Greeter(grpc.GenericRpcHandler):
    def __init__(self, name):
        self.name = name

    def service(self, details):
        if details.method != "/hello.Greeter/SayHello":
            return None
        return grpc.unary_unary_rpc_method_handler(
            lambda body, context: b"hello %s from %s" % (body, self.name.encode())
        )


def main():
    port, name = sys.argv[1:3]
    xds = sys.argv[3:] == ["xds"]
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Greeter(name)], xds=xds)
    address = f"127.0.0.1:{port}"
    if xds:
        fallback = grpc.insecure_server_credentials()
        server.add_secure_port(address, grpc.xds_server_credentials(fallback))
    else:
        server.add_insecure_port(address)
    server.start()
    print("started", flush=True)
    server.wait_for_termination()


main()
