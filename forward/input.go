package forward

import (
	"bufio"
	"bytes"
	"io"
	"sync"
)

// The sizes of the buffers that answers are read through. The large one holds
// the largest head; few answers need it.
const (
	smallInput = 8 << 10
	largeInput = maxHeadBytes
)

var (
	smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, smallInput) }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, largeInput) }}
)

// An input is the buffered side of a connection from which one answer is read.
// Idle connections have none.
type input struct {
	*bufio.Reader
	source io.Reader
}

func newInput(source io.Reader) *input {
	in := &input{Reader: smallReaders.Get().(*bufio.Reader), source: source}
	in.Reset(source)
	return in
}

// more waits until more than n bytes are buffered, where n are already. It
// moves to a larger buffer when this one is full.
func (in *input) more(n int) error {
	if n >= in.Size() && in.Size() < largeInput {
		small := in.Reader
		b, _ := small.Peek(n)
		in.Reader = largeReaders.Get().(*bufio.Reader)
		in.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(b)), in.source))
		small.Reset(nil)
		smallReaders.Put(small)
	}
	_, err := in.Peek(n + 1)
	return err
}

// free gives the buffer back. Nothing may be read afterwards.
func (in *input) free() {
	if in.Reader == nil {
		return
	}
	in.Reset(nil)
	if in.Size() == smallInput {
		smallReaders.Put(in.Reader)
	} else {
		largeReaders.Put(in.Reader)
	}
	in.Reader = nil
}
