// Calls one or more targets over and over and prints one line per call.
//
// Usage: node client.js TARGET...
//
// A line is `TARGET: REPLY` or `TARGET: error CODE DETAILS`. The bootstrap comes from
// GRPC_XDS_BOOTSTRAP. Bodies are raw bytes, so that no message has to be generated.
'use strict';

const grpc = require('@grpc/grpc-js');
require('@grpc/grpc-js-xds').register();

const same = (bytes) => bytes;

function call(target, client) {
  const options = { deadline: Date.now() + 2000 };
  const body = Buffer.from('node');
  client.makeUnaryRequest('/hello.Greeter/SayHello', same, same, body, options, (fault, reply) => {
    const text = fault ? `error ${grpc.status[fault.code]} ${fault.details}` : reply.toString();
    console.log(`${target}: ${text}`);
    setTimeout(() => call(target, client), 50);
  });
}

for (const target of process.argv.slice(2)) {
  call(target, new grpc.Client(target, grpc.credentials.createInsecure()));
}
