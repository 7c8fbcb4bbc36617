// Asks a server for the status of its clients (CSDS), and prints the answer as JSON.
//
// Usage: node csds.js PORT [ID]
//
// The messages are those of Envoy, as grpc-js loads them.
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const root = path.dirname(require.resolve('@grpc/grpc-js-xds/package.json'));
const definition = loader.loadSync('envoy/service/status/v3/csds.proto', {
  keepCase: true,
  longs: String,
  enums: String,
  oneofs: true,
  includeDirs: ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((part) =>
    path.join(root, 'deps', part),
  ),
});
const { ClientStatusDiscoveryService } =
  grpc.loadPackageDefinition(definition).envoy.service.status.v3;

const [port, id] = process.argv.slice(2);
const client = new ClientStatusDiscoveryService(
  `127.0.0.1:${port}`,
  grpc.credentials.createInsecure(),
);
const node_matchers = id === undefined ? [] : [{ node_id: { exact: id } }];
client.FetchClientStatus({ node_matchers }, (fault, answer) => {
  if (fault) {
    console.log(JSON.stringify({ code: fault.code, details: fault.details }));
  } else {
    console.log(JSON.stringify(answer));
  }
  client.close();
});
