"""Makes the calls that it is told on its input, a line of JSON for each batch.

Usage: calls.py [--xds-credentials]

A batch is `{"target", "path", "metadata": [[NAME, VALUE]], "count", "at_once", "timeout"}`. The answer is a line with
a list of `[CODE, TEXT, COOKIES]`: the number of the status, the message of the server or of gRPC, and the values of
`set-cookie`. The bootstrap comes from GRPC_XDS_BOOTSTRAP. Bodies are raw bytes, so that no message has to be generated.
"""

import json
import sys
from concurrent import futures

import grpc
import grpc.experimental


def open_channel(target):
    if sys.argv[1:] != ["--xds-credentials"]:
        return grpc.insecure_channel(target)
    fallback = grpc.experimental.insecure_channel_credentials()
    return grpc.secure_channel(target, grpc.xds_channel_credentials(fallback))


def cookies(*metadata):
    pairs = [pair for one in metadata for pair in one or ()]
    return [value for key, value in pairs if key == "set-cookie"]


def call(method, batch):
    metadata = [tuple(pair) for pair in batch["metadata"]]
    try:
        answer, ended = method.with_call(b"call", timeout=batch["timeout"], metadata=metadata)
        return [0, answer.decode(), cookies(ended.initial_metadata())]
    except grpc.RpcError as fault:
        # A response that has a status and nothing else has its metadata in the trailers.
        set = cookies(fault.initial_metadata(), fault.trailing_metadata())
        return [fault.code().value[0], fault.details(), set]


def main():
    channels = {}
    for line in sys.stdin:
        batch = json.loads(line)
        target = batch["target"]
        if target not in channels:
            channels[target] = open_channel(target)
        method = channels[target].unary_unary(batch["path"])
        with futures.ThreadPoolExecutor(batch["at_once"]) as pool:
            calls = [pool.submit(call, method, batch) for _ in range(batch["count"])]
            print(json.dumps([done.result() for done in calls]), flush=True)


main()
