/**
 * The environment of each test file: Jest's own with a plain global object, without what files leave behind in a worker.
 *
 * Jest's runner opens an `AsyncLocalStorage` for each test file and never disables it. Before Node 24 every promise
 * of all later files copies the value of each of them, which made a tenth of the work of a long run.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import vm from 'node:vm'
import { TestEnvironment } from 'jest-environment-node'
import { shareCompiledCode } from './compiled-code.mjs'

/** How many times later than its limit a test fails: `jest.config.mjs`. */
const PATIENCE = Number(process.env.PATIENCE ?? 1)
const enabledStorages = new Set()
const { run } = AsyncLocalStorage.prototype
const { createContext } = vm
/** Node 20.18 and newer; 20.11 has no constants. */
const DONT_CONTEXTIFY = vm.constants?.DONT_CONTEXTIFY
/**
 * The bytes of bytecode a function runs before V8 considers optimizing it; 67,584 by default in Node 20. Optimized code
 * ends with its test file: a fifth of the processor time of the tests of machines went into optimizing.
 */
const BYTES_BEFORE_OPTIMIZING = 300_000

setFlagsFromString(`--interrupt-budget=${BYTES_BEFORE_OPTIMIZING}`)

AsyncLocalStorage.prototype.run = function (...args) {
  enabledStorages.add(this)
  return run.apply(this, args)
}
shareCompiledCode()

/** In Jest's own context each use of a global, such as `Object`, calls C++ and a proxy. */
function createPlainContext(object) {
  return createContext(DONT_CONTEXTIFY ?? object)
}

export default class PlainEnvironment extends TestEnvironment {
  constructor(config, context) {
    vm.createContext = createPlainContext
    try {
      super(config, context)
    } finally {
      vm.createContext = createContext
    }
  }

  /** Tests with a limit of their own; `testTimeout` already counts the patience for the others. */
  handleTestEvent({ name, test, hook }) {
    const limited = name === 'test_fn_start' ? test : name === 'hook_start' ? hook : undefined
    if (limited?.timeout !== undefined) limited.timeout *= PATIENCE
  }

  async teardown() {
    await super.teardown()
    for (const storage of enabledStorages) storage.disable()
    enabledStorages.clear()
  }
}
