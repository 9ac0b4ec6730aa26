/**
 * `npm run test:update [-- FOLDER]`: rewrites the recorded expectations (trails, transcripts), the API reports and
 * machines.md from the current behaviour. Review the difference before you commit it.
 */
import { spawnSync } from 'node:child_process'
import { root } from './bundle.mjs'

const folders = process.argv.slice(2)
const tests = [
  'run',
  '-s',
  'jest',
  '--',
  ...(folders.length > 0 ? folders : ['test/machines', 'test/conversations', 'test/tools/build/api-reports']),
]
const machines = ['run', '-s', 'machines']
const env = { ...process.env, UPDATE_EXPECTATIONS: '1' }
const codes = [machines, tests].map(
  (args) => spawnSync('npm', args, { cwd: root, env, stdio: 'inherit' }).status ?? 1,
)
process.exitCode = Math.max(...codes)
