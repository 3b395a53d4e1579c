# frozen_string_literal: true

require "securerandom"
require "time"
require "uri"

module CardGateway
  # What all requests of one key share: attempts, waits and the clock. It sends
  # nothing.
  class Policy
    attr_reader :base, :signer, :attempts, :max_wait, :now, :offset, :verify_answers

    # attempts is the largest number of attempts, 1 for no repetition; max_wait the
    # longest wait before another one, in seconds: if the server asks for more, there
    # is none. now returns the time in seconds; warn is called with a text when the
    # clock of this machine is wrong. verify_answers: only an answer that the gateway
    # has signed for the request is believed, and the error for others is an
    # UnprovenError; it needs a gateway with the option sign_responses. Without it
    # somebody between can forge answers, and nothing is certain.
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

    # Returns the state of a new request. call is what its caller has chosen.
    def begin(method, call = nil)
      Exchange.new(self, method, call)
    end

    # Returns a nonce and the time of the gateway's clock, as far as it is known.
    def new_call
      Call.new(SecureRandom.hex(16), (now.call + offset).to_i)
    end

    # Whether the URL is of the gateway, so that it may see a signature.
    def serves?(url)
      [url.scheme, url.host&.downcase, url.port] == [base.scheme, base.host.downcase, base.port]
    end

    # Takes over the gateway's clock from a refusal that says that ours is wrong. Only
    # an answer that is signed, or a server that is authenticated or on this machine,
    # may set the clock.
    def correct_clock(headers)
      return false unless verify_answers || Policy.trusts_date?(base)

      moment = verify_answers ? headers["x-response-timestamp"].to_i : Time.httpdate(headers["date"].to_s).to_f
      offset = moment - now.call
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

  # One request between its attempts, and what an answer to it means. It sends
  # nothing.
  #
  # A call that may change something is signed once, and each attempt sends the same
  # bytes: the gateway accepts them once. It is signed anew only after an answer that
  # says for certain that it was not executed.
  class Exchange
    REPLAY = "Replay detected (duplicate nonce)"
    WINDOW = "Request timestamp is outside the allowed window"
    REPEAT_WITHIN = 270 # seconds after the signature: the gateway's window is five minutes
    GATEWAYS = %w[UPSTREAM_ERROR UPSTREAM_TIMEOUT].freeze # codes of a gateway that does not say more
    private_constant :REPLAY, :WINDOW, :REPEAT_WITHIN, :GATEWAYS

    attr_reader :attempts

    # chosen is the Call that the caller has chosen, or nil.
    def initialize(policy, method, chosen = nil)
      @policy = policy
      @method = method
      @chosen = chosen
      @safe = %w[GET HEAD].include?(method)
      @attempts = 0
      @headers = nil # the next attempt is signed anew
      @corrected = false # the clock was set for this request
      @out = false # the server has perhaps received what was signed last
      @perhaps = false # an attempt was perhaps accepted
    end

    # Returns the headers of the next attempt.
    def sign(target, body)
      @attempts += 1
      if @headers.nil? || @safe
        @call = @chosen || @policy.new_call
        @chosen = nil
        @headers = @policy.signer.headers(@method, target, body, timestamp: @call.timestamp, nonce: @call.nonce)
        @headers["Accept-Encoding"] = "identity" if verifies? # else the hash is of other bytes
        @signed_at = monotonic
      end
      @headers
    end

    # Whether an answer must be verified before it is handed over.
    def verifies?
      @policy.verify_answers
    end

    # Whether the body of an answer is read before it is handed over.
    def reads?
      verifies? || !@safe
    end

    # Returns the seconds to wait before another attempt, or nil if the answer is
    # final. Raises UnprovenError, TakenError or UnknownError.
    def after_answer(answer)
      fields = answer.status >= 400 ? ApiError.fields(answer.body) : {}
      message = fields["message"] if answer.status == 401
      return after_safe(answer, message == WINDOW) if @safe

      @out = true
      begin
        verify(answer, message == WINDOW)
      rescue UnprovenError => e
        return after_unproven(e)
      end
      return after_not_executed(Policy.retry_after(answer.headers) || 0) if ApiError.not_executed?(fields)
      return if fields["accepted"] == true
      raise TakenError.new(@call, answer.headers["x-request-id"] || "", @perhaps) if message == REPLAY

      if message == WINDOW && @attempts == 1 && !@corrected && @policy.correct_clock(answer.headers)
        @headers = nil
        @corrected = true
        @out = false
        @attempts = 0 # it was refused before anything was done
        return 0
      end
      after_refusal(answer, fields)
    end

    # The same for a connection that failed; sent is whether the server may have
    # received the request. nil: nothing was sent, or the request changes nothing,
    # and the caller raises the cause itself.
    def after_failure(sent, cause)
      @out ||= sent
      @perhaps ||= sent
      wait(0) || (unknown(cause) if @out && !@safe)
    end

    private

    def after_safe(answer, window)
      if window && !@corrected
        verify(answer, true)
        if @policy.correct_clock(answer.headers)
          @corrected = true
          @attempts -= 1 # it was refused before anything was done
          return 0
        end
      end
      asked = Policy.retry_after(answer.headers)
      unforwarded = answer.headers["x-gateway-forwarded"] == "no"
      seconds = wait(asked || 0) if answer.status == 429 || (answer.status == 503 && (unforwarded || asked))
      verify(answer, window) unless seconds
      seconds
    end

    # An answer that is not believed says nothing.
    def after_unproven(unproven)
      @out = @perhaps = true
      wait(0) || unknown(unproven)
    end

    def after_not_executed(asked)
      seconds = wait(asked)
      if seconds
        @headers = nil
        @out = @perhaps = false
      end
      seconds
    end

    def after_refusal(answer, fields)
      status = answer.status
      says = [true, false].include?(fields["accepted"])
      gateways = says || GATEWAYS.include?(fields["code"]) || (status == 401 && fields["code"] == "UNAUTHORIZED")
      if [429, 503].include?(status) || ([502, 504].include?(status) && !gateways && !verifies?)
        @perhaps ||= !says
        # The same bytes may still be accepted, from whoever has them.
        return wait(Policy.retry_after(answer.headers) || 0) || unknown(ApiError.new(answer))
      end
      unknown(ApiError.new(answer)) if gateways && @perhaps
    end

    # Verifies the answer, if it must be. Of a refusal because of our clock, the time
    # cannot be compared with it; the nonce shows that the answer is new.
    def verify(answer, window)
      return unless verifies?

      now = window ? answer.headers["x-response-timestamp"].to_i : (@policy.now.call + @policy.offset).to_i
      @policy.signer.verify_answer(@call.nonce, answer, now: now)
    end

    def unknown(cause)
      raise UnknownError.new(@call, @attempts, cause.message), cause: cause
    end

    def wait(asked)
      # Jitter, so that many clients do not come back together.
      seconds = asked + (rand * [8.0, 0.25 * (2**@attempts)].min)
      late = !@safe && monotonic - @signed_at + seconds > REPEAT_WITHIN
      seconds unless late || @attempts >= @policy.attempts || asked > @policy.max_wait
    end

    def monotonic
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
