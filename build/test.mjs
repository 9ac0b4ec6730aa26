/**
 * `npm test`: checks everything that must hold before a change is accepted.
 *
 * System, build, then the tests, with types and lint beside them, because many tests wait for something; a failure does
 * not skip the other checks. The last line counts each check as one: `N passed, N failed, N skipped`; the lines before
 * it say why tests were skipped. Arguments go to Jest (`npm test -- test/rules`).
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from './bundle.mjs'
import { checkSystem } from './check-system.mjs'
import { readSkips, skipProblems } from './skips.mjs'

/** Several checkers of one project would each work out the same types again. */
const TYPES = ['node_modules/typescript/bin/tsc', '--noEmit', '--checkers', '1']
/** A compiler that ends in seconds need not collect its garbage, which takes a fifth of its work. */
const UNCOLLECTED = { GOGC: 'off' }
const tally = { passed: 0, failed: 0, skipped: 0 }

await checkSystem({ forTests: true })
const checks = [
  check('types', TYPES, UNCOLLECTED),
  check('types of the pages', [...TYPES, '-p', 'web/tsconfig.json'], UNCOLLECTED),
  check('lint', ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', '.']),
]
await check('build', ['build/build.mjs'])
await test(process.argv.slice(2))
await Promise.all(checks)
console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`)
process.exitCode = tally.failed === 0 ? 0 : 1

/** Prints what the check says when it ends, so that nothing is mixed into it. */
async function check(name, script, env = {}) {
  const { good, output } = await runNode(script, 'pipe', env)
  tally[good ? 'passed' : 'failed'] += 1
  console.log(`${output}${good ? 'ok    ' : 'FAILED'} ${name}`)
}

async function test(args) {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  const report = join(folder, 'jest.json')
  const jest = 'node_modules/jest/bin/jest.js'
  const flags = [
    '--experimental-vm-modules',
    '--conditions=development',
    '--disable-warning=ExperimentalWarning',
  ]
  const words = [...flags, jest, '--json', `--outputFile=${report}`, ...args]
  const { good } = await runNode(words, 'inherit')
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

function runNode(args, out, env = {}) {
  const stdio = ['ignore', out, out]
  const child = spawn(process.execPath, args, { cwd: root, stdio, env: { ...process.env, ...env } })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  return new Promise((resolve) => child.on('close', (code) => resolve({ good: code === 0, output })))
}
