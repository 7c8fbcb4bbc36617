package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// batch is a line of the input: some calls. The lines are those of ../python/calls.py.
type batch struct {
	Target   string
	Path     string
	Metadata [][2]string
	Count    int
	AtOnce   int `json:"at_once"`
	Timeout  float64
}

func runCalls(xdsCredentials bool) {
	secure := insecure.NewCredentials()
	if xdsCredentials {
		options := xdscreds.ClientOptions{FallbackCreds: secure}
		chosen, err := xdscreds.NewClientCredentials(options)
		if err != nil {
			fail(err)
		}
		secure = chosen
	}
	channels := make(map[string]*grpc.ClientConn)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var batch batch
		if err := json.Unmarshal(lines.Bytes(), &batch); err != nil {
			fail(err)
		}
		channel := channels[batch.Target]
		if channel == nil {
			opened, err := grpc.NewClient(batch.Target, grpc.WithTransportCredentials(secure))
			if err != nil {
				fail(err)
			}
			channels[batch.Target] = opened
			channel = opened
		}
		answer, err := json.Marshal(makeCalls(channel, batch))
		if err != nil {
			fail(err)
		}
		fmt.Println(string(answer))
	}
}

func makeCalls(channel *grpc.ClientConn, batch batch) [][2]any {
	results := make([][2]any, batch.Count)
	numbers := make(chan int)
	var callers sync.WaitGroup
	for range batch.AtOnce {
		callers.Go(func() {
			for number := range numbers {
				results[number] = callOnce(channel, batch)
			}
		})
	}
	for number := range batch.Count {
		numbers <- number
	}
	close(numbers)
	callers.Wait()
	return results
}

func callOnce(channel *grpc.ClientConn, batch batch) [2]any {
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(batch.Timeout*float64(time.Second)))
	defer stop()
	for _, pair := range batch.Metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, pair[0], pair[1])
	}
	body, reply := []byte("call"), []byte(nil)
	err := channel.Invoke(ctx, batch.Path, &body, &reply, grpc.ForceCodec(raw{}))
	fault := status.Convert(err)
	if fault != nil {
		return [2]any{fault.Code(), fault.Message()}
	}
	return [2]any{0, string(reply)}
}
