/** The bench reads the reports of its load generators, its responses, and its command line. */
import { describe, expect, test } from '@jest/globals'
import { readWrk } from '../../../bench/load.ts'
import { readOptions } from '../../../bench/options.ts'
import { ResponseSplitter } from '../../../bench/raw/response-splitter.ts'

const report = (extra = ''): string => `Running 2s test @ http://127.0.0.1:1/
  Latency Distribution
     50%  520.00us
     75%  600.00us
     90%    1.00ms
     99%    1.20s
  145666 requests in 2.00s, 30.15MB read
${extra}Requests/sec:  72833.11
Transfer/sec:     15.07MB
`
const allRefused = '  Non-2xx or 3xx responses: 145666\n'

describe("wrk's report", () => {
  test('is read with its units', () => {
    expect(readWrk(report(), 200)).toEqual({ perSecond: 72_833.11, p50Ms: 0.52, p99Ms: 1_200 })
  })

  test('counts refusals when refusals were expected', () => {
    expect(readWrk(report(allRefused), 401).perSecond).toBe(72_833.11)
  })

  test.each([
    ['unexpected refusals', report(allRefused), 200],
    ['answers where refusals were expected', report(), 401],
    ['some refusals among answers', report('  Non-2xx or 3xx responses: 7\n'), 401],
    ['broken connections', report('  Socket errors: connect 0, read 3, write 0, timeout 0\n'), 200],
    ['something else', 'unable to connect', 200],
  ])('with %s is refused as a measurement', (_, text, status) => {
    expect(() => readWrk(text, status)).toThrow('wrk failed')
  })
})

describe('responses on a connection', () => {
  const response = 'HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\n\r\nhello'
  const bytes = (text: string): Uint8Array => Buffer.from(text)

  test('are separated wherever a chunk of bytes ends', () => {
    for (let end = 1; end < response.length; end++) {
      const splitter = new ResponseSplitter(200)
      const parts = [response.slice(0, end), response.slice(end), response.slice(0, end), response.slice(end)]
      expect(parts.map((part) => splitter.countCompleted(bytes(part)))).toEqual([0, 1, 0, 1])
    }
  })

  test('are counted when several arrive at once, the last one in part', () => {
    const splitter = new ResponseSplitter(200)
    const three = response.repeat(3)
    expect(splitter.countCompleted(bytes(three.slice(0, -2)))).toBe(2)
    expect(splitter.countCompleted(bytes(three.slice(-2) + response))).toBe(2)
  })

  test('of an unexpected status are an error', () => {
    expect(() => new ResponseSplitter(200).countCompleted(bytes(response.replace('200', '503')))).toThrow(
      'answered 503, not 200',
    )
  })
})

describe('the command line', () => {
  test('selects all entries with five rounds of two seconds by default', () => {
    expect(readOptions([])).toEqual({
      effort: { rounds: 5, roundMs: 2_000, quick: false },
      only: [],
      json: undefined,
      strict: false,
      help: false,
    })
  })

  test('selects entries by --only, and shortens the rounds by --quick', () => {
    const { effort, only } = readOptions(['--quick', '--rounds', '3', '--only', 'http', '--only', 'memory'])
    expect(effort).toEqual({ rounds: 3, roundMs: 1_000, quick: true })
    expect(only).toEqual(['http', 'memory'])
  })

  test.each(['0', '-1', '1.5', 'many', '101'])('refuses %s as the number of rounds', (rounds) => {
    expect(() => readOptions([`--rounds=${rounds}`])).toThrow('--rounds takes a whole number')
  })
})
