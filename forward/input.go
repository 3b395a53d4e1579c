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
	maxHeadBytes = 64 << 10 // of all heads of one answer, 1xx included
	smallInput   = 8 << 10
	largeInput   = maxHeadBytes
)

var (
	inputs       = sync.Pool{New: func() any { return &input{small: bufio.NewReaderSize(nil, smallInput)} }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, largeInput) }}
)

// An input is the buffered side of a connection from which one answer is read.
// Idle connections have none.
type input struct {
	*bufio.Reader // small, or a large one
	small         *bufio.Reader
	source        io.Reader
}

func newInput(source io.Reader) *input {
	in := inputs.Get().(*input)
	in.Reader, in.source = in.small, source
	in.Reset(source)
	return in
}

// more waits until more than n bytes are buffered, where n are already. It
// moves to a larger buffer when this one is full.
func (in *input) more(n int) error {
	if n >= in.Size() && in.Reader == in.small {
		b, _ := in.small.Peek(n)
		in.Reader = largeReaders.Get().(*bufio.Reader)
		in.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(b)), in.source))
	}
	_, err := in.Peek(n + 1)
	return err
}

// free gives the buffers back. The input must not be used afterwards.
func (in *input) free() {
	if in.Reader != in.small {
		in.Reset(nil)
		largeReaders.Put(in.Reader)
	}
	in.small.Reset(nil)
	in.Reader, in.source = nil, nil
	inputs.Put(in)
}
