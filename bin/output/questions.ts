/**
 * Asks the person, where standard input and standard error are terminals.
 *
 * Ctrl-C and the end of the input end the command with 130, before anything was changed. Without a terminal a command
 * that destroys something needs `--yes`, and secrets are read from standard input. No secret is echoed.
 */
import { type Readable, Writable } from 'node:stream'
import { EXIT, ExitError, refusedError, usageError } from '../process/exit.ts'
import type { Output } from './output.ts'

export type InputStream = Readable & { readonly isTTY?: boolean }

export interface LossOptions {
  /** The sentence without its full stop: `this deletes ENG-228's sandbox on mica`. */
  readonly loss: string
  /** The value of `--yes`. */
  readonly yes?: boolean | undefined
  /** The command line to run again, without `--yes`. */
  readonly command: string
}

const UNCHANGED = 'nothing was changed'
const ANSWERS_MAX = 3
/** More than any key or token. */
const SECRET_BYTES_MAX = 64 * 1024

export class Questions {
  readonly #input: InputStream
  readonly #output: Output

  constructor(input: InputStream, output: Output) {
    this.#input = input
    this.#output = output
  }

  get mayAsk(): boolean {
    return this.#input.isTTY === true && this.#output.stderr.isTerminal
  }

  /** Asks a question whose default is in capitals: `Go on? [Y/n]: `. */
  async confirm(question: string, byDefault: boolean): Promise<boolean> {
    this.#requireTerminal(question)
    const choices = byDefault ? '[Y/n]' : '[y/N]'
    for (let asked = 0; asked < ANSWERS_MAX; asked += 1) {
      const answer = (await this.#readLine(`${question} ${choices}: `)).trim().toLowerCase()
      if (answer === '') return byDefault
      if (/^y(es)?$/.test(answer)) return true
      if (/^no?$/.test(answer)) return false
    }
    return false
  }

  /** Returns when the loss is accepted; otherwise the command ends. */
  async confirmLoss({ loss, yes, command }: LossOptions): Promise<void> {
    if (yes === true) return
    if (!this.mayAsk) throw usageError(loss, `${command} --yes`)
    const sentence = `${loss.charAt(0).toUpperCase()}${loss.slice(1)}. Go on?`
    if (!(await this.confirm(sentence, false))) throw refusedError(UNCHANGED)
  }

  /** Asks for a line of text: `Repository [acme/api]: `. */
  async ask(question: string, byDefault?: string): Promise<string> {
    this.#requireTerminal(question)
    const shown = byDefault === undefined ? '' : ` [${byDefault}]`
    const answer = (await this.#readLine(`${question}${shown}: `)).trim()
    return answer === '' ? (byDefault ?? '') : answer
  }

  /** Asks for a line after a prompt of the command's own form. */
  async askAfter(prompt: string): Promise<string> {
    this.#requireTerminal(prompt.trim())
    return (await this.#readLine(prompt)).trim()
  }

  /** Asks without echo on a terminal, and reads standard input to its end elsewhere. @param what like `the API key` */
  async askSecret(what: string): Promise<string> {
    const secret = this.#input.isTTY === true ? await this.#typeSecret(what) : await this.#readSecret(what)
    if (secret === '') throw usageError(`${what} is empty`)
    return secret
  }

  async #typeSecret(what: string): Promise<string> {
    this.#requireTerminal(what)
    const prompt = `${what.charAt(0).toUpperCase()}${what.slice(1)} (not shown): `
    return (await this.#readLine(prompt, { isHidden: true })).trim()
  }

  async #readSecret(what: string): Promise<string> {
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of this.#input) {
      const piece = Buffer.from(chunk)
      bytes += piece.length
      if (bytes > SECRET_BYTES_MAX)
        throw usageError(`${what} on standard input is longer than ${SECRET_BYTES_MAX} bytes`)
      chunks.push(piece)
    }
    return Buffer.concat(chunks).toString().trim()
  }

  #requireTerminal(question: string): void {
    if (!this.mayAsk) throw usageError(`there is no terminal for the question: ${question}`)
  }

  async #readLine(prompt: string, { isHidden = false } = {}): Promise<string> {
    const { createInterface } = await import('node:readline')
    const output = this.#echo(isHidden)
    if (isHidden) this.#output.writeError(prompt)
    const lines = createInterface({ input: this.#input, output, terminal: true, historySize: 0 })
    let isAnswered = false
    try {
      const answer = await new Promise<string>((resolve, reject) => {
        const interrupt = () => reject(new ExitError(EXIT.interrupted, UNCHANGED))
        lines.on('SIGINT', interrupt)
        lines.on('close', interrupt)
        lines.question(isHidden ? '' : prompt, resolve)
      })
      isAnswered = true
      return answer
    } finally {
      lines.close()
      // The line end that the person typed shows only when it is echoed.
      if (isHidden || !isAnswered) this.#output.writeError('\n')
    }
  }

  /** A stream for what the person types: to standard error, or to nowhere. */
  #echo(isHidden: boolean): Writable {
    const write = (text: string) => this.#output.writeError(text)
    const echo = new Writable({
      write(chunk, _, done) {
        if (!isHidden) write(String(chunk))
        done()
      },
    })
    return Object.assign(echo, { columns: this.#output.stderr.width })
  }
}
