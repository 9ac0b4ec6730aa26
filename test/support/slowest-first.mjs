/**
 * Starts the slowest test files first, so that no single file runs alone at the end of a whole run.
 *
 * Jest sorts by the durations of earlier runs, which a fresh clone does not have, and then by file size, which says
 * little: many small files wait for real processes. So the files of folders with real processes follow those that are
 * listed.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Sequencer from '@jest/test-sequencer'
import { root } from '../../build/bundle.mjs'

/** Files that take more than about ten seconds beside others, the slowest first. */
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
  'system/once',
  'system/run',
  'system/quickstart',
  'system/supervise',
  'system/kill-runs',
  'adapters/store/disk-faults',
  'system/attach',
  'system/kill',
  'adapters/bin/attach',
  'adapters/providers/quota-day',
  'system/serve',
  'system/follow-up-kills',
  'system/queue-causes',
  'system/workers',
  'adapters/providers/codehost/local-pulls',
  'adapters/worker/terminal/headless-screen',
  'system/lost-database',
  'system/reported-pulls',
  'system/follow-up',
  'adapters/providers/codehost/github-pull-host',
  'adapters/providers/codehost/local-writes',
  'adapters/providers/quota-stop',
  'system/providers-connect',
  'adapters/worker/git/remote-path',
  'adapters/providers/codehost/local-hostile',
  'system/conversations',
  'rules/protocol/frame-budget',
  'adapters/bin/quickstart',
  'adapters/store/kill',
  'system/ticket-states',
  'tidy',
  'far-ends',
].map((name) => join(root, 'test', `${name}.test.ts`))

export default class SlowestFirst extends Sequencer {
  sort(tests) {
    const missing = SLOWEST.filter((path) => !existsSync(path))
    if (missing.length > 0) throw new Error(`${missing} is gone; remove it from ${import.meta.filename}`)
    return super.sort(tests).sort((a, b) => placeOf(a) - placeOf(b))
  }
}

/** Folders whose files mostly take longer than tests of rules and machines, the slowest first. */
const SLOW_FOLDERS = ['system', 'adapters', 'tools', 'conversations'].map((name) =>
  join(root, 'test', name, '/'),
)

/** Equal for all files of a folder that are not listed, so that Jest's own order of them stays. */
function placeOf({ path }) {
  const place = SLOWEST.indexOf(path)
  if (place !== -1) return place
  const folder = SLOW_FOLDERS.findIndex((each) => path.startsWith(each))
  return SLOWEST.length + (folder === -1 ? SLOW_FOLDERS.length : folder)
}
