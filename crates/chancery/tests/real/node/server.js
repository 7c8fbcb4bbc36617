// A server that greets with its name.
//
// Usage: node server.js PORT NAME [xds]
//
// With `xds` it is an xDS-enabled server: it serves while the management server gives it a listener.
'use strict';

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

const [port, name, mode] = process.argv.slice(2);
const same = (bytes) => bytes;
const method = {
  path: '/hello.Greeter/SayHello',
  requestStream: false,
  responseStream: false,
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
};
const implementation = {
  SayHello: (call, done) => done(null, Buffer.from(`hello ${call.request} from ${name}`)),
};

let credentials = grpc.ServerCredentials.createInsecure();
let server;
if (mode === 'xds') {
  xds.register();
  credentials = new xds.XdsServerCredentials(credentials);
  server = new xds.XdsServer();
} else {
  server = new grpc.Server();
}
server.addService({ SayHello: method }, implementation);
server.bindAsync(`127.0.0.1:${port}`, credentials, (fault) => {
  console.log(fault ? `cannot bind: ${fault.message}` : 'started');
});
