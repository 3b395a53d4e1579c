package caddymodule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A native histogram needs no bounds: a bucket is at most a tenth wider than its
// lower bound. That is eight buckets for each doubling, so 200 of them hold all
// times from a microsecond to half a minute. Should more be needed, as by a clock
// that is off by years, the histogram begins anew, at most once an hour, and has
// coarser buckets until then.
const (
	nativeFactor  = 1.1
	nativeBuckets = 200
	nativeReset   = time.Hour
	// From here on, values are in buckets; smaller ones are zero.
	nativeFromTime = time.Microsecond
	// X-Timestamp has whole seconds.
	nativeFromSkew = 500 * time.Millisecond
)

// newHistogramVec returns a histogram by labels that has a native one beside its
// classic buckets. Only a scrape in protobuf shows the native one.
func newHistogramVec(opts prometheus.HistogramOpts, labels []string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(withNative(opts, nativeFromTime), labels)
}

// withNative returns the options with a native histogram, whose zero bucket ends
// at from.
func withNative(opts prometheus.HistogramOpts, from time.Duration) prometheus.HistogramOpts {
	opts.NativeHistogramBucketFactor = nativeFactor
	opts.NativeHistogramMaxBucketNumber = nativeBuckets
	opts.NativeHistogramMinResetDuration = nativeReset
	opts.NativeHistogramZeroThreshold = from.Seconds()
	return opts
}
