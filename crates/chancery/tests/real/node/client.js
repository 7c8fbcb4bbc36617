// Calls one or more targets over and over and prints one line per call.
//
// Usage: node client.js [--csds PORT] TARGET...
//
// With a port, it tells there what it runs (CSDS).
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

let targets = process.argv.slice(2);
if (targets[0] === '--csds') {
  const server = new grpc.Server();
  grpc.addAdminServicesToServer(server);
  const address = `127.0.0.1:${targets[1]}`;
  server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (fault) => {
    if (fault) throw fault;
  });
  targets = targets.slice(2);
}

for (const target of targets) {
  call(target, new grpc.Client(target, grpc.credentials.createInsecure()));
}
