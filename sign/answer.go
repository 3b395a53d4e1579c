package sign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// ErrAnswer means that an answer is not the gateway's answer to the request, or that
// the gateway has not signed it.
var ErrAnswer = errors.New("the answer is not signed for this request")

// maxAnswerAge is how far X-Response-Timestamp may differ from the clock.
const maxAnswerAge = 5 * time.Minute

// maxAnswer is the largest answer that the gateway signs, in bytes.
const maxAnswer = 8 << 20

// VerifyAnswer returns nil if the gateway has signed the answer to the request. The
// request is the signed one, and the body is that of the answer as it was received,
// before a Content-Encoding is removed. Every other error is an [ErrAnswer] and says
// what is wrong.
//
// The gateway signs with the option sign_responses, and only answers to requests
// that passed rules 1 to 10. It cannot sign answers that it streams.
func (s *Signer) VerifyAnswer(request *http.Request, answer *http.Response, body []byte) error {
	var values [4]string
	for i, name := range []string{auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature, "X-Request-Id"} {
		all := answer.Header.Values(name)
		if len(all) != 1 || all[0] == "" {
			return fmt.Errorf("%w: it has %d headers %s, want 1", ErrAnswer, len(all), name)
		}
		values[i] = all[0]
	}
	timestamp, hash, signature, id := values[0], values[1], values[2], values[3]
	text := auth.AppendAnswerToSign(nil, answer.StatusCode, auth.SignedAnswer{
		RequestID: id, Timestamp: timestamp, Nonce: request.Header.Get(auth.HeaderNonce), BodyHash: hash,
	})
	if !auth.NewSecret(1, s.Secret, time.Time{}).Verify(text, signature) {
		return fmt.Errorf("%w: X-Response-Signature is wrong for the status, the request id, the timestamp, the nonce and the hash", ErrAnswer)
	}
	if hash != auth.BodyHash(body) {
		return fmt.Errorf("%w: X-Response-Body-Hash is not that of the body", ErrAnswer)
	}
	unix, err := strconv.ParseInt(timestamp, 10, 64)
	if age := s.now().Sub(time.Unix(unix, 0)); err != nil || age > maxAnswerAge || age < -maxAnswerAge {
		return fmt.Errorf("%w: X-Response-Timestamp is more than %s from the clock", ErrAnswer, maxAnswerAge)
	}
	return nil
}

// verified reads the answer and verifies it.
func (t *Transport) verified(request *http.Request, answer *http.Response) (*http.Response, error) {
	body, err := readAndClose(io.LimitReader(answer.Body, maxAnswer+1), answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if err := t.VerifyAnswer(request, answer, body); err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}
