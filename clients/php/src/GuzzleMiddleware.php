<?php

declare(strict_types=1);

namespace CardGateway;

use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Exception\RequestException;
use GuzzleHttp\Promise\Create;
use GuzzleHttp\Promise\PromiseInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Signs what Guzzle sends, each attempt anew. Push it last, so that it is nearest to the handler:
 *
 *     $stack = HandlerStack::create();
 *     $stack->push(new GuzzleMiddleware($policy));
 *
 * Answers and failed connections are those of Guzzle. What cannot be signed is an UnsignableException.
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
            $exchange = $this->policy->begin($request->getMethod());
            if ($exchange->verifies()) {
                if (isset($options['sink'])) {
                    throw new UnsignableException('an answer is verified before it is handed over; leave out the option sink');
                }
                $options = ['decode_content' => false, 'stream' => false] + $options; // the hash is of what was received
            }
            $attempt = function (float $wait) use (&$attempt, $handler, $request, $options, $exchange, $target, $body): PromiseInterface {
                $signed = SigningClient::sign($request, $exchange, $target, $body);

                return $handler($signed, ['delay' => $wait * 1000] + $options)->then(
                    static function (ResponseInterface $response) use ($attempt, $exchange): mixed {
                        $answer = SigningClient::answer($response, $exchange->verifies());
                        $wait = $exchange->afterAnswer($answer);
                        if ($wait === null) {
                            $exchange->verify($answer);
                        }

                        return $wait === null ? $response : $attempt($wait);
                    },
                    static function (mixed $reason) use ($attempt, $exchange): PromiseInterface {
                        $failed = $reason instanceof ConnectException || $reason instanceof RequestException && !$reason->hasResponse();
                        $wait = $failed ? $exchange->afterFailure(self::sent($reason)) : null;

                        return $wait === null ? Create::rejectionFor($reason) : $attempt($wait);
                    }
                );
            };

            return $attempt((float) ($options['delay'] ?? 0) / 1000);
        };
    }

    /** Whether the server may have received the request. Guzzle throws a ConnectException for an empty answer, too. */
    private static function sent(mixed $reason): bool
    {
        $errno = $reason instanceof ConnectException ? ($reason->getHandlerContext()['errno'] ?? 0) : 0;

        return !in_array($errno, Client::NOT_SENT, true);
    }
}
