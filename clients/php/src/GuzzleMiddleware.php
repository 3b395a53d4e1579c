<?php

declare(strict_types=1);

namespace CardGateway;

use GuzzleHttp\Exception\BadResponseException;
use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Exception\RequestException;
use GuzzleHttp\Promise\Create;
use GuzzleHttp\Promise\PromiseInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Signs what Guzzle sends, and repeats a call as the same bytes. Push it last, so that it is nearest to the handler:
 *
 *     $stack = HandlerStack::create();
 *     $stack->push(new GuzzleMiddleware($policy));
 *
 * Answers and failed connections are those of Guzzle. What cannot be signed is an UnsignableException; a TakenException and
 * an UnknownException are thrown, too. A request that has X-Nonce and X-Timestamp already is signed with these. The answer to
 * a call is never a stream.
 */
final class GuzzleMiddleware
{
    public function __construct(private Policy $policy)
    {
    }

    public function __invoke(callable $handler): callable
    {
        return function (RequestInterface $request, array $options) use ($handler): PromiseInterface {
            [$target, $body] = SigningClient::read($this->policy, $request);
            // libcurl repeats a request by itself on a connection that it uses again.
            $options['curl'] = [CURLOPT_FRESH_CONNECT => true, CURLOPT_FORBID_REUSE => true] + ($options['curl'] ?? []);
            $exchange = $this->policy->begin($request->getMethod(), SigningClient::call($this->policy, $request));
            if ($exchange->reads(200)) {
                $options['stream'] = false;
            }
            if ($exchange->verifies()) {
                if (isset($options['sink'])) {
                    throw new UnsignableException('an answer is verified before it is handed over; leave out the option sink');
                }
                $options = ['decode_content' => false] + $options; // the hash is of what was received
            }
            $attempt = function (float $wait) use (&$attempt, $handler, $request, $options, $exchange, $target, $body): PromiseInterface {
                $signed = SigningClient::sign($request, $exchange, $target, $body);

                return $handler($signed, ['delay' => $wait * 1000] + $options)->then(
                    static function (ResponseInterface $response) use ($attempt, $exchange): mixed {
                        $wait = $exchange->afterAnswer(SigningClient::answer($response, $exchange));

                        return $wait === null ? $response : $attempt($wait);
                    },
                    static function (mixed $reason) use ($attempt, $exchange): PromiseInterface {
                        $wait = self::failed($reason) ? $exchange->afterFailure(self::sent($reason), $reason) : null;

                        return $wait === null ? Create::rejectionFor($reason) : $attempt($wait);
                    }
                );
            };

            return $attempt((float) ($options['delay'] ?? 0) / 1000);
        };
    }

    /** Whether there was no whole answer. An exception with an answer and another exception is that of a callback. */
    private static function failed(mixed $reason): bool
    {
        return $reason instanceof ConnectException || $reason instanceof RequestException
            && !$reason instanceof BadResponseException && (!$reason->hasResponse() || $reason->getPrevious() === null);
    }

    /** Whether the server may have received the request. Guzzle throws a ConnectException for an empty answer, too. */
    public static function sent(mixed $reason): bool
    {
        $failed = $reason instanceof ConnectException || $reason instanceof RequestException;
        $errno = $failed ? $reason->getHandlerContext()['errno'] ?? 0 : 0;

        return !in_array($errno, Client::NOT_SENT, true);
    }
}
