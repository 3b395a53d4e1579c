# frozen_string_literal: true

require "time"
require "uri"

module CardGateway
  # What all requests of one key share: attempts, waits and the clock. It sends
  # nothing.
  class Policy
    attr_reader :base, :signer, :attempts, :max_wait, :now, :offset, :verify_answers

    # attempts is the largest number of attempts, max_wait the longest wait before
    # another one, in seconds: if the server asks for more, its answer is final.
    # now returns the time in seconds; warn is called with a text when the clock of
    # this machine is wrong. verify_answers makes every answer that the gateway has
    # not signed for the request an UnprovenError; it needs a gateway with the option
    # sign_responses.
    def initialize(base_url, key_id, secret, attempts: 3, max_wait: 30, now: -> { Time.now.to_f }, warn: Kernel.method(:warn),
                   verify_answers: false)
      unless %r{\Ahttps?://[^/?#]+(/[^?#]*)?\z}.match?(base_url.to_s)
        raise UnsignableError, "the base URL #{base_url.inspect} must begin with https:// and a host"
      end

      @base = URI(base_url.delete_suffix("/"))
      @signer = Signer.new(key_id, secret)
      @attempts = attempts
      @max_wait = max_wait
      @now = now
      @warn = warn
      @verify_answers = verify_answers
      @offset = 0 # seconds by which the gateway's clock is ahead
    end

    # Returns the state of a new request.
    def begin(method)
      Exchange.new(self, method)
    end

    # Whether the URL is of the gateway, so that it may see a signature.
    def serves?(url)
      [url.scheme, url.host&.downcase, url.port] == [base.scheme, base.host.downcase, base.port]
    end

    # Takes over the gateway's clock if the answer says that ours is wrong.
    def correct_clock(headers, body)
      return false unless ApiError.fields(body)["message"] == "Request timestamp is outside the allowed window"
      return false unless Policy.trusts_date?(base)

      offset = Time.httpdate(headers["date"].to_s).to_f - now.call
      return false if offset.abs > 24 * 3600

      @offset = offset
      @warn.call("the clock of this machine differs from the gateway's by #{offset.round} s; set it by NTP")
      true
    rescue ArgumentError
      false
    end

    # Whether the Date of an answer from the URL may set the clock: over TLS, and
    # from this machine.
    def self.trusts_date?(url)
      url.scheme == "https" || ["localhost", "[::1]"].include?(url.host) || /\A127(\.\d+){3}\z/.match?(url.host.to_s)
    end

    # Returns Retry-After in its form of seconds, or nil.
    def self.retry_after(headers)
      value = headers["retry-after"].to_s
      value.to_i if /\A\d{1,9}\z/.match?(value)
    end
  end

  # One request between its attempts. It sends nothing.
  class Exchange
    attr_reader :attempts

    def initialize(policy, method)
      @policy = policy
      @method = method
      @safe = %w[GET HEAD].include?(method)
      @attempts = 0
      @corrected = false
    end

    # Returns the headers of the next attempt.
    def sign(target, body)
      headers = @policy.signer.headers(@method, target, body, timestamp: (@policy.now.call + @policy.offset).to_i)
      @attempts += 1
      @nonce = headers["X-Nonce"]
      headers
    end

    # Whether an answer must be verified before it is handed over.
    def verifies?
      @policy.verify_answers
    end

    # Verifies the answer to the last attempt, if it must be.
    def verify(answer)
      @policy.signer.verify_answer(@nonce, answer, now: (@policy.now.call + @policy.offset).to_i) if verifies?
    end

    # Returns the seconds to wait before another attempt, or nil if the answer is
    # final. The names of the headers are in lower case.
    def after_answer(status, headers, body)
      if status == 401 && !@corrected && @policy.correct_clock(headers, body)
        @corrected = true
        @attempts -= 1 # it was refused before anything was done
        return 0
      end
      asked = Policy.retry_after(headers)
      unforwarded = headers["x-gateway-forwarded"] == "no"
      wait(asked || 0) if status == 429 || (status == 503 && (unforwarded || (@safe && asked)))
    end

    # The same for a connection that failed; sent is whether the server may have
    # received the request.
    def after_failure(sent)
      wait(0) if @safe || !sent
    end

    private

    def wait(asked)
      return if @attempts >= @policy.attempts || asked > @policy.max_wait

      # Jitter, so that many clients do not come back together.
      asked + (rand * [8.0, 0.25 * (2**@attempts)].min)
    end
  end
end
