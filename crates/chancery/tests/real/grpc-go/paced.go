package main

import (
	"fmt"
	"strconv"
	"time"
)

// runPaced connects to all endpoints and says so, makes a call each two milliseconds, and prints the share of a core
// that this process took for five seconds.
func runPaced(words []string) {
	if len(words) != 2 {
		fail("TARGET CONNECTIONS")
	}
	connections, err := strconv.Atoi(words[1])
	if err != nil {
		fail("CONNECTIONS is a number")
	}
	channel := plain(words[0])
	// A round robin that has all of its connections.
	timed(channel, 3*connections, 1)
	fmt.Println("ready")
	ticks := time.NewTicker(2 * time.Millisecond)
	call := func() {
		<-ticks.C
		echo(channel)
	}
	// The first updates come.
	for range 500 {
		call()
	}
	began, before := time.Now(), cpu()
	for time.Since(began) < 5*time.Second {
		call()
	}
	fmt.Println((cpu() - before).Seconds() / time.Since(began).Seconds())
}
