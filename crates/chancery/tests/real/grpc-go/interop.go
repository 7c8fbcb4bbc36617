package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// A case that takes longer has failed.
const caseTime = 30 * time.Second

type interopCase func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)

// interopCases are the cases that need nothing but the test service.
var interopCases = map[string]interopCase{
	"empty_unary":                 interop.DoEmptyUnaryCall,
	"large_unary":                 interop.DoLargeUnaryCall,
	"client_streaming":            interop.DoClientStreaming,
	"server_streaming":            interop.DoServerStreaming,
	"ping_pong":                   interop.DoPingPong,
	"empty_stream":                interop.DoEmptyStream,
	"cancel_after_begin":          interop.DoCancelAfterBegin,
	"cancel_after_first_response": interop.DoCancelAfterFirstResponse,
	"timeout_on_sleeping_server":  interop.DoTimeoutOnSleepingServer,
	"custom_metadata":             interop.DoCustomMetadata,
	"status_code_and_message":     interop.DoStatusCodeAndMessage,
	"special_status_message":      interop.DoSpecialStatusMessage,
}

// runInteropClient runs cases one after the other. The first that fails ends the program with its reason.
func runInteropClient(words []string) {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	wait := grpc.WithDefaultCallOptions(grpc.WaitForReady(true))
	channel, err := grpc.NewClient(words[0], credentials, wait)
	if err != nil {
		fail(err)
	}
	for _, name := range words[1:] {
		runInteropCase(channel, name)
		fmt.Println("passed:", name)
	}
}

func runInteropCase(channel *grpc.ClientConn, name string) {
	ctx, stop := context.WithTimeout(context.Background(), caseTime)
	defer stop()
	switch name {
	case "unimplemented_method":
		interop.DoUnimplementedMethod(ctx, channel)
	case "unimplemented_service":
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(channel))
	default:
		run := interopCases[name]
		if run == nil {
			fail("no case " + name)
		}
		run(ctx, testgrpc.NewTestServiceClient(channel))
	}
}

func runInteropServer(words []string) {
	server := newServer(len(words) > 1 && words[1] == "xds")
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	serveOn(server, words[0])
}
