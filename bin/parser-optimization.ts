/**
 * `delayParserOptimization` lets V8 optimize the HTTP parser of undici only in a process that reads many responses.
 *
 * The parser is WebAssembly with one function of 70 kB. V8 optimizes it after some dozen characters, which costs a tenth
 * of a second of processor time, and a worker reads a single response before its WebSocket. A caller must have loaded the
 * compiled code of its bundle: V8 refuses code that was compiled under other flags.
 */
import { setFlagsFromString } from 'node:v8'

/** About the bytes of compiled code that run before V8 optimizes a function: here, some hundred responses. */
const OPTIMIZATION_BUDGET_BYTES = 100_000_000

export function delayParserOptimization(): void {
  setFlagsFromString(`--wasm-tiering-budget=${OPTIMIZATION_BUDGET_BYTES}`)
}
