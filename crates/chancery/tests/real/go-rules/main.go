// A program that checks messages by the rules that protoc-gen-validate generated for Go, for tests
// that compare with it.
//
// It reads frames from stdin and answers each on stdout. A frame is the length of the name of a
// message type, the name, the length of the bytes, and the bytes; a length is four bytes, big end
// first. An answer is one line: `ok`, `unknown` for a type that is not linked, `malformed`, or the
// fields of the message that break a rule, in order, each once, as `field:a field:b`.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

type validator interface{ ValidateAll() error }

type many interface{ AllErrors() []error }

type one interface{ Field() string }

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		name, err := frame(in)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fail(err)
		}
		bytes, err := frame(in)
		if err != nil {
			fail(err)
		}
		fmt.Fprintln(out, answer(string(name), bytes))
		// Who waits for an answer has sent no more.
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

func frame(in io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	bytes := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(in, bytes)
	return bytes, err
}

func answer(name string, bytes []byte) string {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return "unknown"
	}
	message := kind.New().Interface()
	if err := proto.Unmarshal(bytes, message); err != nil {
		return "malformed"
	}
	rules, ok := message.(validator)
	if !ok {
		return "ok"
	}
	err = rules.ValidateAll()
	if err == nil {
		return "ok"
	}
	var fields []string
	if all, ok := err.(many); ok {
		for _, err := range all.AllErrors() {
			if single, ok := err.(one); ok {
				field, _, _ := strings.Cut(single.Field(), "[")
				fields = append(fields, "field:"+field)
			}
		}
	}
	slices.Sort(fields)
	return strings.Join(slices.Compact(fields), " ")
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
