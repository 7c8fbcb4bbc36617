package main

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/orca"
	"google.golang.org/protobuf/proto"
)

// mixed is a codec of bodies that are bytes, and of messages that are generated.
type mixed struct{ raw }

func (mixed) Marshal(body any) ([]byte, error) {
	if message, ok := body.(proto.Message); ok {
		return proto.Marshal(message)
	}
	return raw{}.Marshal(body)
}

func (mixed) Unmarshal(data []byte, body any) error {
	if message, ok := body.(proto.Message); ok {
		return proto.Unmarshal(data, message)
	}
	return raw{}.Unmarshal(data, body)
}

// newReportingServer reports with each call and beside calls that it uses this part of its capacity.
func newReportingServer(text string) *grpc.Server {
	utilization, err := strconv.ParseFloat(text, 64)
	if err != nil {
		fail(err)
	}
	load := orca.NewServerMetricsRecorder()
	load.SetApplicationUtilization(utilization)
	load.SetQPS(100)
	record := func(ctx context.Context, body any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		orca.CallMetricsRecorderFromContext(ctx).SetRequestCost("rows", 3)
		return handle(ctx, body)
	}
	server := grpc.NewServer(
		grpc.ForceServerCodec(mixed{}), orca.CallMetricsServerOption(load), grpc.ChainUnaryInterceptor(record))
	if err := orca.Register(server, orca.ServiceOptions{ServerMetricsProvider: load}); err != nil {
		fail(err)
	}
	return server
}
