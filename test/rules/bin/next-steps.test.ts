/** The commands that the quickstart prints at its end. */
import { execFileSync } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import { describeNextSteps, foldCommand } from '../../../bin/programs/quickstart/next-steps.ts'
import { aRun } from '../run/runs.ts'

const WORDS = ['node', 'dist/bin/switchyard.js', 'attach', "'a b'", '|', 'cat']

describe('a command', () => {
  test.each<[number | undefined, string]>([
    [undefined, "  node dist/bin/switchyard.js attach 'a b' | cat"],
    [48, "  node dist/bin/switchyard.js attach 'a b' | cat"],
    [47, "  node dist/bin/switchyard.js attach 'a b' | \\\n    cat"],
    [37, "  node dist/bin/switchyard.js \\\n    attach 'a b' | cat"],
    [10, "  node \\\n    dist/bin/switchyard.js \\\n    attach \\\n    'a b' \\\n    | cat"],
  ])('at %s columns', (columns, folded) => {
    expect(foldCommand(WORDS, columns)).toBe(folded)
  })

  test('a shell reads a folded command as it reads the whole one', () => {
    const words = ['printf', "'%s,'", 'a', "'b  c'", 'd', '|', 'tr', ',', 'x']
    const folded = foldCommand(words, 14)
    expect(folded.split('\n').length).toBeGreaterThan(2)
    expect(execFileSync('sh', ['-c', folded]).toString()).toBe('axb  cxdx')
  })
})

describe('what comes next', () => {
  const pull = { remote: 'acme/greeter', number: 12, branch: 'b', confirmed: true }
  const run = { ...aRun({ status: 'completed', pull }), id: `run-${'0'.repeat(32)}` }
  const facts = { program: ['node', 'dist/bin/switchyard.js'], dataDir: '/clone/.data', cwd: '/clone', run }
  const link = 'http://127.0.0.1:4420/#code=abcdefghijklmnopqrstuv'

  test.each([true, false])('fits into 60 columns, when the host is kept: %s', (isKept) => {
    const text = describeNextSteps({ ...facts, link, columns: 60 }, isKept)
    expect(text.split('\n').filter((line) => line.length > 60)).toEqual([])
  })

  test('has each command on a line of its own where nothing is cut', () => {
    const text = describeNextSteps({ ...facts, link, columns: undefined }, true)
    const { identifier } = run.ticket
    for (const words of ['dashboard', 'status', `attach ${identifier}`, `pulls merge ${identifier}`])
      expect(text).toContain(`  node dist/bin/switchyard.js ${words} --data-dir .data\n`)
    expect(text).not.toContain('\\\n')
  })
})
