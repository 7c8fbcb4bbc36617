package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	patience = 2 * time.Second
	pause    = 50 * time.Millisecond
)

func runClient(targets []string) {
	credentials := grpc.WithTransportCredentials(insecure.NewCredentials())
	channels := make(map[string]*grpc.ClientConn)
	for _, target := range targets {
		channel, err := grpc.NewClient(target, credentials)
		if err != nil {
			fail(err)
		}
		channels[target] = channel
	}
	for {
		for _, target := range targets {
			fmt.Printf("%s: %s\n", target, call(channels[target]))
		}
		time.Sleep(pause)
	}
}

func call(channel *grpc.ClientConn) string {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	body, reply := []byte("go"), []byte(nil)
	err := channel.Invoke(ctx, "/hello.Greeter/SayHello", &body, &reply, grpc.ForceCodec(raw{}))
	if err != nil {
		fault := status.Convert(err)
		return fmt.Sprintf("error %s %q", fault.Code(), fault.Message())
	}
	return string(reply)
}
