package forward

// errWouldBlock is the error of a read without waiting when no byte has arrived.
// It is temporary, so that crypto/tls can be used afterwards.
var errWouldBlock error = wouldBlockError{}

type wouldBlockError struct{}

func (wouldBlockError) Error() string { return "nothing to read now" }

func (wouldBlockError) Timeout() bool { return true }

func (wouldBlockError) Temporary() bool { return true }
