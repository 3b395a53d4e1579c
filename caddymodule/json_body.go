package caddymodule

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// decoder returns what decompresses the body of an upstream that uses gzip although
// identity was asked for; nil if the body is not compressed. The error is for any
// other encoding.
func decoder(body io.Reader, h http.Header) (io.Reader, error) {
	switch encoding := strings.ToLower(strings.Join(h["Content-Encoding"], ",")); encoding {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	default:
		return nil, errAnswerEncoded
	}
}

// dropValidators removes headers that describe the bytes of the upstream's body, or
// by which a client would ask whether its copy of them is still right, because
// translation changes them.
func dropValidators(h http.Header) {
	for _, name := range []string{"Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges", "Content-Range", "Trailer"} {
		h.Del(name)
	}
}

// dropTrailers removes the upstream's trailers. The head has not been sent yet,
// so they would become headers.
func dropTrailers(h http.Header) {
	for _, names := range h["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
}

// jsonAnswer reports whether the Content-Type of an answer is JSON.
func jsonAnswer(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) &&
		(media == "application/json" || strings.HasSuffix(media, "+json"))
}

// typeFault returns what is wrong with the type of a body that ought to be JSON
// in UTF-8 without an encoding; nil for such a body, and for none.
func typeFault(r *http.Request) []auth.FieldError {
	if r.ContentLength == 0 {
		return nil
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return detail("content_encoding", "The body has a Content-Encoding; send it as it is")
		}
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return detail("content_type", "Content-Type must be present exactly once; write application/json")
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return detail("content_type", "Content-Type is not that of JSON; write application/json")
	}
	charset, given := params["charset"]
	if !given && !strings.Contains(strings.ToLower(types[0]), "charset") {
		return nil
	}
	// mime drops a charset* (RFC 8187) that it cannot decode, and the issuer may not.
	if !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return detail("charset", "The charset of Content-Type is not utf-8; send UTF-8 and leave the charset out")
	}
	return nil
}

// jsonRequest reports whether the body is JSON in UTF-8 without an encoding,
// or there is no body.
func jsonRequest(r *http.Request) bool { return typeFault(r) == nil }

// maxAnswer bounds the bytes of an answer that is held to be translated.
const maxAnswer = 8 << 20

// Reasons why an answer cannot be translated, besides errors in its text.
var (
	errAnswerTooLarge = cardlog.PlainError("the answer is larger than the " + strconv.Itoa(maxAnswer) + " bytes that are translated")
	errAnswerCutOff   = cardlog.PlainError("the upstream closed the connection in the middle of the answer")
	errAnswerEncoded  = cardlog.PlainError("the answer has a content encoding other than gzip, although identity was asked for")
	errAnswerPartial  = cardlog.PlainError("the answer holds a part of the document only")
)
