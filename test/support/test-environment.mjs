/**
 * The environment of each test file: Jest's own, without what test files leave behind in the process of their worker.
 *
 * Jest's runner opens an `AsyncLocalStorage` for each test file and never disables it. Before Node 24 every promise
 * of all later files copies the value of each of them, which made a tenth of the work of a long run.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { TestEnvironment } from 'jest-environment-node'
import { shareCompiledCode } from './compiled-code.mjs'

const enabledStorages = new Set()
const { run } = AsyncLocalStorage.prototype

AsyncLocalStorage.prototype.run = function (...args) {
  enabledStorages.add(this)
  return run.apply(this, args)
}
shareCompiledCode()

export default class LeavingNothing extends TestEnvironment {
  async teardown() {
    await super.teardown()
    for (const storage of enabledStorages) storage.disable()
    enabledStorages.clear()
  }
}
