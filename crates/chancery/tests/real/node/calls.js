// Makes the calls that it is told on its input, a line of JSON for each batch.
//
// Usage: node calls.js
//
// The lines are those of ../python/calls.py.
'use strict';

const readline = require('readline');
const grpc = require('@grpc/grpc-js');
require('@grpc/grpc-js-xds').register();

const same = (bytes) => bytes;
const clients = new Map();

function clientOf(target) {
  if (!clients.has(target)) {
    clients.set(target, new grpc.Client(target, grpc.credentials.createInsecure()));
  }
  return clients.get(target);
}

function call(batch) {
  const options = { deadline: Date.now() + batch.timeout * 1000 };
  const metadata = new grpc.Metadata();
  for (const [name, value] of batch.metadata) metadata.add(name, value);
  const body = Buffer.from('call');
  return new Promise((done) => {
    clientOf(batch.target).makeUnaryRequest(
      batch.path, same, same, body, metadata, options,
      (fault, reply) => done(fault ? [fault.code, fault.details] : [0, reply.toString()]),
    );
  });
}

async function make(batch) {
  const results = [];
  let left = batch.count;
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      results.push(await call(batch));
    }
  };
  await Promise.all(Array.from({ length: batch.at_once }, caller));
  return results;
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await make(JSON.parse(line))));
  }
  process.exit(0);
}

main();
