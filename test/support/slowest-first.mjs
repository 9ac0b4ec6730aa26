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

/** Files that take more than about ten seconds on a busy machine, the slowest first. */
const SLOWEST = [
  'simulation/simulation',
  'system/worker-deaths',
  'browser/filters',
  'system/secrets-providers',
  'system/worker',
  'system/interrupted-costs',
  'adapters/worker/git/follow-up',
  'adapters/worker/run/follow-up-plan',
  'system/recordings',
  'browser/pages',
  'adapters/worker/run/publish-execution',
  'adapters/providers/codehost/github-pull-host',
  'system/providers',
  'adapters/providers/codehost/local-pulls',
  'system/quickstart',
  'system/once',
  'system/foreign-answers',
  'system/wrong-clock',
  'adapters/worker/git/hostile',
  'system/run',
  'adapters/providers/quota-stop',
  'system/attach',
  'browser/acts',
  'browser/story',
  'adapters/bin/quickstart',
  'adapters/worker/git/secrets',
  'system/kill',
  'system/power-loss',
  'system/follow-up-kills',
  'adapters/worker/git/held-back',
  'adapters/worker/git/checkout-source',
  'system/serve',
  'system/supervise',
  'browser/inspector',
  'system/follow-up',
  'system/queue-causes',
  'adapters/bin/runs-command',
  'adapters/worker/git/git',
  'adapters/bin/config-command',
  'system/interrupted-agents',
  'system/run-listing',
  'adapters/bin/client-options',
  'adapters/store/disk-faults',
  'system/worker-container',
  'adapters/worker/git/mirror-cache',
  'adapters/providers/codehost/local-hostile',
  'adapters/bin/attach',
  'system/reported-pulls',
  'adapters/worker/git/read-mirror',
  'adapters/providers/quota-day',
  'system/kill-runs',
  'system/workers',
  'system/conversations',
  'adapters/worker/git/remote-path',
  'system/lost-database',
  'adapters/worker/run/resume-sandbox',
  'adapters/providers/codehost/local-writes',
  'system/doctor',
  'conversations/attach-laws',
  'adapters/store/events',
  'adapters/worker/agents/usage',
  'adapters/worker/sandbox/orphans',
  'system/follow-log',
  'adapters/store/kill',
  'adapters/worker/terminal/headless-screen',
  'system/ticket-states',
  'adapters/bin/top',
  'tools/build/client-package',
  'rules/protocol/frame-budget',
  'system/providers-connect',
  'adapters/worker/git/local-transport',
  'adapters/providers/codehost/github-fake',
  'system/systemd-worker',
  'system/providers-storage',
  'system/provision-failures',
  'system/provision',
  'system/pause',
  'tidy',
  'machines/daemon/with-host',
  'machines/terminals/with-daemon',
  'machines/runtime/quick-steps',
].map((name) => join(root, 'test', `${name}.test.ts`))

export default class SlowestFirst extends Sequencer {
  sort(tests) {
    const missing = SLOWEST.filter((path) => !existsSync(path))
    if (missing.length > 0) throw new Error(`${missing} is gone; remove it from ${import.meta.filename}`)
    return super.sort(tests).sort((a, b) => placeOf(a) - placeOf(b))
  }
}

/** Folders whose files mostly take longer than tests of rules and machines, the slowest first. */
const SLOW_FOLDERS = ['system', 'browser', 'adapters', 'tools', 'conversations'].map((name) =>
  join(root, 'test', name, '/'),
)

/** Equal for all files of a folder that are not listed, so that Jest's own order of them stays. */
function placeOf({ path }) {
  const place = SLOWEST.indexOf(path)
  if (place !== -1) return place
  const folder = SLOW_FOLDERS.findIndex((each) => path.startsWith(each))
  return SLOWEST.length + (folder === -1 ? SLOW_FOLDERS.length : folder)
}
