/** Reads which tests of a Jest report were skipped, and why: the reason stands in a skipped test's name. */

const REASON = /\(skipped: ([^)]+)\)/
const NO_REASON = 'no reason is given'

/** The names of the skipped tests by their reason. */
export function readSkips(report) {
  const skips = new Map()
  for (const { assertionResults = [] } of report.testResults)
    for (const { status, fullName } of assertionResults) {
      if (status !== 'pending' && status !== 'todo') continue
      const reason = REASON.exec(fullName)?.[1] ?? NO_REASON
      skips.set(reason, [...(skips.get(reason) ?? []), fullName])
    }
  return skips
}

/** Every skip needs a reason; where a list of reasons is given, one that it names. */
export function skipProblems(skips, allowed) {
  return [...skips].flatMap(([reason, names]) => {
    if (reason === NO_REASON) return names.map((name) => `skipped without a reason: ${name}`)
    if (allowed === undefined || allowed.includes(reason)) return []
    return [`CI may not skip what ${reason}; test/skips-in-ci.json lists what it may: ${names.join('; ')}`]
  })
}
