package cardclient

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed answer.
const (
	headerAnsweredAt      = "X-Response-Timestamp"
	headerAnswerHash      = "X-Response-Body-Hash"
	headerAnswerSignature = "X-Response-Signature"
	headerRequestID       = "X-Request-Id"
)

const (
	// maxAnswerAge is how far X-Response-Timestamp may differ from the clock.
	maxAnswerAge = 5 * time.Minute
	// maxAnswer is the largest answer that the gateway signs, in bytes.
	maxAnswer = 8 << 20
)

// An UnprovenError is an answer that the gateway has not signed for this request,
// while Transport.VerifyAnswers is set. The request may have been executed.
type UnprovenError struct {
	Status    int    // as it was received
	RequestID string // as it was received
	Unsigned  bool   // whether the answer has no signature at all, as refusals with 400 and 401
	Reason    string // what is wrong
}

func (e *UnprovenError) Error() string {
	return fmt.Sprintf("card request: the answer %d is not proven to be the gateway's (request id %s): %s", e.Status, e.RequestID, e.Reason)
}

// VerifyAnswer returns nil if the gateway has signed the answer to the request that
// was sent with the nonce, and an [UnprovenError] otherwise. body is the answer's
// as it was received, before a Content-Encoding is removed.
func (s Signer) VerifyAnswer(nonce string, status int, header http.Header, body []byte) error {
	e := &UnprovenError{Status: status, RequestID: header.Get(headerRequestID)}
	if unsigned(header) {
		e.Unsigned, e.Reason = true, "it is not signed"
		if text := newAPIError(&http.Response{StatusCode: status, Header: header}, body).Message; status >= 400 {
			e.Reason += "; it says " + strconv.Quote(text)
		}
		return e
	}
	values := make([]string, 0, 4)
	for _, name := range []string{headerRequestID, headerAnsweredAt, headerAnswerHash, headerAnswerSignature} {
		if all := header.Values(name); len(all) != 1 || all[0] == "" {
			e.Reason = "it must have one header " + name
			return e
		}
		values = append(values, header.Get(name))
	}
	timestamp, hash := values[1], values[2]
	mac := hmac.New(sha256.New, []byte(s.Secret))
	mac.Write([]byte(strings.Join([]string{"card-gateway-response-v1", strconv.Itoa(status), values[0], timestamp, nonce, hash}, "\n")))
	sum := sha256.Sum256(body)
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	age := s.now().Sub(time.Unix(int64(seconds), 0))
	switch {
	case !hmac.Equal([]byte(base64.StdEncoding.EncodeToString(mac.Sum(nil))), []byte(values[3])):
		e.Reason = headerAnswerSignature + " is not that of the status, the request id, the timestamp, the nonce and the hash"
	case hash != base64.StdEncoding.EncodeToString(sum[:]):
		e.Reason = headerAnswerHash + " is not that of the body"
	case err != nil || age > maxAnswerAge || age < -maxAnswerAge:
		e.Reason = headerAnsweredAt + " is more than five minutes from the clock"
	default:
		return nil
	}
	return e
}

// unsigned reports whether the answer has no header of a signature.
func unsigned(h http.Header) bool {
	return len(h[headerAnsweredAt])+len(h[headerAnswerHash])+len(h[headerAnswerSignature]) == 0
}

// peekBody returns the body of the answer, or the first part of one that is too large to
// be signed, and leaves it to be read again.
func peekBody(answer *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	answer.Body = readCloser{io.MultiReader(bytes.NewReader(body), answer.Body), answer.Body}
	if err != nil {
		return nil, fmt.Errorf("the answer ends early: %w", err)
	}
	return body, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}
