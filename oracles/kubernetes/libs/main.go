// Command libs answers requests, one line of JSON each, with Kubernetes' own libraries.
//
// A request is one line {"id": ..., "op": "...", ...}; its answer is one line with the same id and
// either "result", or "error" with the library's own message, or "panic". Answers are in the order of the
// requests and are flushed as soon as no further request is buffered.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sort"
)

// operation answers one request, given as a whole line.
type operation func(line []byte) (any, error)

var operations = map[string]operation{}

// register adds an operation that decodes its own request type.
func register[Request any](name string, answer func(*Request) (any, error)) {
	operations[name] = func(line []byte) (any, error) {
		request := new(Request)
		if err := json.Unmarshal(line, request); err != nil {
			return nil, requestError{err}
		}
		return answer(request)
	}
}

// requestError is a request that this program cannot decode, as opposed to one that a library rejects.
type requestError struct{ cause error }

func (e requestError) Error() string { return "bad request: " + e.cause.Error() }

type reply struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Result any             `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"`
	// BadRequest marks an error of the caller, never of a library.
	BadRequest bool   `json:"badRequest,omitempty"`
	Panic      string `json:"panic,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--list" {
		names := make([]string, 0, len(operations))
		for name := range operations {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			fmt.Println(name)
		}
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "libs:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriterSize(out, 1<<20)
	defer writer.Flush()
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(answer(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}

func answer(line []byte) (r reply) {
	var head struct {
		ID json.RawMessage `json:"id"`
		Op string          `json:"op"`
	}
	fail := func(err error) reply {
		text := err.Error()
		var bad requestError
		return reply{ID: head.ID, Error: &text, BadRequest: errors.As(err, &bad)}
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fail(requestError{err})
	}
	operation, ok := operations[head.Op]
	if !ok {
		return fail(requestError{fmt.Errorf("unknown op %q", head.Op)})
	}
	defer func() {
		if cause := recover(); cause != nil {
			r = reply{ID: head.ID, Panic: fmt.Sprint(cause)}
			if os.Getenv("LIBS_TRACE") != "" {
				fmt.Fprintf(os.Stderr, "%v\n%s", cause, debug.Stack())
			}
		}
	}()
	result, err := operation(line)
	if err != nil {
		return fail(err)
	}
	// A result that cannot be encoded as JSON (such as NaN) must not end the program.
	text, err := json.Marshal(result)
	if err != nil {
		return fail(err)
	}
	return reply{ID: head.ID, Result: json.RawMessage(text)}
}
