/**
 * Starts the slowest test files first, so that no single file runs alone at the end of a whole run.
 *
 * Jest sorts by the durations of earlier runs, which a fresh clone does not have, and then by file size, which says
 * little: many small files wait for real processes.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Sequencer from '@jest/test-sequencer'
import { root } from '../../build/bundle.mjs'

/** Files that take more than about fifteen seconds alone, the slowest first. */
const SLOWEST = [
  'simulation/simulation',
  'system/interrupted-costs',
  'system/worker-deaths',
  'adapters/worker/git/follow-up',
  'system/secrets-providers',
  'system/worker',
  'adapters/worker/run/follow-up-plan',
  'system/providers',
  'adapters/worker/git/checkout-source',
  'system/run',
  'system/quickstart',
  'system/kill-runs',
  'adapters/store/disk-faults',
  'adapters/store/files',
  'system/attach',
  'system/kill',
  'adapters/bin/attach',
  'adapters/providers/quota-day',
  'adapters/worker/agents/usage',
  'system/settings',
  'system/serve',
  'system/follow-up-kills',
  'adapters/worker/git/hostile',
  'system/queue-causes',
  'system/workers',
  'adapters/providers/codehost/local-pulls',
  'adapters/worker/terminal/headless-screen',
  'adapters/worker/git/mirror-cache',
  'system/lost-database',
  'system/reported-pulls',
  'system/follow-up',
  'adapters/providers/codehost/github-pull-host',
  'adapters/providers/codehost/local-writes',
  'adapters/providers/quota-stop',
  'system/providers-connect',
  'adapters/worker/git/remote-path',
  'rules/protocol/frame-budget',
  'adapters/bin/quickstart',
  'adapters/store/kill',
  'system/ticket-states',
].map((name) => join(root, 'test', `${name}.test.ts`))

export default class SlowestFirst extends Sequencer {
  sort(tests) {
    const missing = SLOWEST.filter((path) => !existsSync(path))
    if (missing.length > 0) throw new Error(`${missing} is gone; remove it from ${import.meta.filename}`)
    return super.sort(tests).sort((a, b) => placeOf(a) - placeOf(b))
  }
}

/** Equal for all files that are not listed, so that Jest's own order of them stays. */
function placeOf({ path }) {
  const place = SLOWEST.indexOf(path)
  return place === -1 ? SLOWEST.length : place
}
