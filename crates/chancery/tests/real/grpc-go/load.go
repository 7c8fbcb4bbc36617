package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// runLoad makes so many calls, of which so many are under way at any time, and prints what they cost.
func runLoad(words []string) {
	if len(words) != 3 {
		fail("TARGET CALLS CONCURRENCY")
	}
	calls, callsErr := strconv.Atoi(words[1])
	concurrency, err := strconv.Atoi(words[2])
	if callsErr != nil || err != nil || concurrency < 1 {
		fail("CALLS and CONCURRENCY are numbers")
	}
	channel := plain(words[0])
	timed(channel, 1000, concurrency)
	before := cpu()
	times := timed(channel, calls, concurrency)
	used := cpu() - before
	slices.Sort(times)
	answer, err := json.Marshal(map[string]float64{
		"cpu_us_per_call": float64(used.Microseconds()) / float64(len(times)),
		"p99_us":          float64(times[len(times)*99/100].Microseconds()),
	})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(answer))
}

func plain(target string) *grpc.ClientConn {
	channel, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(err)
	}
	return channel
}

func echo(channel *grpc.ClientConn) {
	body, reply := []byte("a message of thirty-two bytes..."), []byte(nil)
	err := channel.Invoke(context.Background(), "/t/echo", &body, &reply, grpc.ForceCodec(raw{}))
	if err != nil {
		fail(err)
	}
}

func timed(channel *grpc.ClientConn, calls, concurrency int) []time.Duration {
	each := make([][]time.Duration, concurrency)
	var callers sync.WaitGroup
	for caller := range concurrency {
		callers.Go(func() {
			for range calls / concurrency {
				began := time.Now()
				echo(channel)
				each[caller] = append(each[caller], time.Since(began))
			}
		})
	}
	callers.Wait()
	return slices.Concat(each...)
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
