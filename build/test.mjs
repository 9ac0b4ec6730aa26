/**
 * `npm test`: checks everything that must hold before a change is accepted.
 *
 * System, build, types, lint, then the tests; a failure does not skip the later checks. The last line counts each
 * check as one: `N passed, N failed, N skipped`; the lines before it say why tests were skipped. Arguments go to Jest
 * (`npm test -- test/rules`).
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'
import { readSkips, skipProblems } from './skips.mjs'

const tally = { passed: 0, failed: 0, skipped: 0 }

await checkSystem({ forTests: true })
check('build', 'build/build.mjs')
check('types', 'node_modules/typescript/bin/tsc', '--noEmit')
check('types of the pages', 'node_modules/typescript/bin/tsc', '--noEmit', '-p', 'web/tsconfig.json')
check('lint', 'node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.')
test(process.argv.slice(2))
console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`)
process.exitCode = tally.failed === 0 ? 0 : 1

function check(name, ...script) {
  const good = runNode(script)
  tally[good ? 'passed' : 'failed'] += 1
  console.log(`${good ? 'ok    ' : 'FAILED'} ${name}`)
}

function test(args) {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  const report = join(folder, 'jest.json')
  const jest = 'node_modules/jest/bin/jest.js'
  const flags = [
    '--experimental-vm-modules',
    '--conditions=development',
    '--disable-warning=ExperimentalWarning',
  ]
  const good = runNode([...flags, jest, '--json', `--outputFile=${report}`, ...args])
  const results = readReport(report)
  rmSync(folder, { recursive: true })
  tally.passed += results.numPassedTests
  // A file that cannot be loaded has no failing test but counts as failed.
  const failed = results.numFailedTests + results.numRuntimeErrorTestSuites
  // Jest can also fail without a failing test: no test found, a crash, a threshold.
  tally.failed += good ? failed : Math.max(failed, 1)
  // A run that picks tests by name leaves the others out without a reason.
  if (!args.some((arg) => /^(-t|--testNamePattern)/.test(arg))) judgeSkips(results)
}

function judgeSkips(results) {
  const skips = readSkips(results)
  for (const [reason, names] of skips) console.log(`skipped ${names.length}: ${reason}`)
  tally.skipped = [...skips.values()].flat().length
  const allowed = JSON.parse(readFileSync(join(root, 'test/skips-in-ci.json'), 'utf8'))
  const problems = skipProblems(skips, process.env.CI ? allowed : undefined)
  for (const problem of problems) console.log(`FAILED ${problem}`)
  tally.failed += problems.length
}

function readReport(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return { numPassedTests: 0, numFailedTests: 1, numRuntimeErrorTestSuites: 0, testResults: [] }
  }
}

function runNode(args) {
  return (
    spawnSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0
  )
}
