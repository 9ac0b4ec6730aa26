/** Prints the link of a page, and opens it for people on a terminal, or names the line that leads to it over SSH. */
import { browserProgram, openInBrowser, tunnelLine } from './open-browser.ts'

/** @param lastLine said to people last */
export function presentLink(link: string, mayOpen: boolean, lastLine: string): void {
  process.stdout.write(`${link}\n`)
  if (process.stderr.isTTY !== true) return
  const tunnel = tunnelLine(Number(new URL(link).port), process)
  if (tunnel !== undefined)
    process.stderr.write(
      `From your own machine: ${tunnel}\nThen open the link there. It is good once, for a minute.\n`,
    )
  else if (mayOpen) openForPerson(link)
  process.stderr.write(`${lastLine}\n`)
}

/** Does nothing where the person's browser is not on this machine, and where there is no screen. */
export function openForPerson(link: string): void {
  const program = process.env.SSH_CONNECTION === undefined ? browserProgram(process) : undefined
  if (program !== undefined) openInBrowser(program, link)
}
