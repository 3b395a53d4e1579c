package forward

// errWouldBlock is what a read without waiting returns when nothing is there.
// It is temporary, so that crypto/tls goes on afterwards.
var errWouldBlock error = wouldBlockError{}

type wouldBlockError struct{}

func (wouldBlockError) Error() string { return "nothing to read now" }

func (wouldBlockError) Timeout() bool { return true }

func (wouldBlockError) Temporary() bool { return true }
