/** What the bundler writes into the program. Run straight from its sources (in tests) it has no such names. */
declare const SWITCHYARD_VERSION: string | undefined
