package signcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// send sends the request and prints the answer. It prints redirects and does not
// follow them: a signature is for one URL. It fails with exitRefused for a status
// of 400 or more.
func (c *signedCall) send(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	insecure, _ := cmd.Flags().GetBool("insecure")
	timeout, _ := cmd.Flags().GetDuration("timeout")
	client := &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: tunnelOnly, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(c.request.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("sending the request to %s: %w", c.request.URL.Host, withoutURL(err))
	}
	defer answer.Body.Close()
	out := cmd.OutOrStdout()
	if include, _ := cmd.Flags().GetBool("include"); include {
		fmt.Fprintf(out, "%s %s\r\n", answer.Proto, answer.Status)
		if err := answer.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprint(out, "\r\n")
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", answer.Proto, answer.Status)
	}
	if _, err := io.Copy(out, answer.Body); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		cmd.SilenceErrors = true
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exitRefused, nil })(cmd, nil)
	}
	return nil
}

// withoutURL unwraps an error of net/http, which would show the URL without its
// host, because the target is in Opaque.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// tunnelOnly uses the environment's proxy for https. A proxy for plain http
// rewrites the request line, which is signed.
func tunnelOnly(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// exitRefused is the exit status after an answer of 400 or more.
const exitRefused = 22
